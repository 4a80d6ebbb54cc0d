package hostview

import (
	"os"
	"strings"
)

// mountedIn returns a mount point at dir or below it, "" if there is none. Dir has its symlinks resolved.
func mountedIn(dir string) (string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape.Replace(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			return point, nil
		}
	}
	return "", nil
}

// unescape undoes how the kernel writes the characters that would break a line of mountinfo into fields.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
