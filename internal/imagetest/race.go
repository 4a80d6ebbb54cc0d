//go:build race

package imagetest

// The race detector sees nothing of what runs in a sandbox, and the same tests
// are run without it.
const race = true
