package recipe

import "time"

// Mirrors is mirrors, of sources as apt tells them: uri, suite, component and
// the file of the package list.
func Mirrors(list [][4]string, suite string) ([]string, time.Time, error) {
	var sources []aptSource
	for _, s := range list {
		sources = append(sources, aptSource{s[0], s[1], s[2], s[3]})
	}
	return mirrors(sources, suite)
}

// HostRelease is hostRelease.
func HostRelease() (string, error) { return hostRelease() }
