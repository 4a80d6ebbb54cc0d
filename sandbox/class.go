package sandbox

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// A class is a kind of sandbox.
type class struct {
	ttl     time.Duration // of a lease that does not ask for another
	workdir string
	limits  Limits // of a lease that does not ask for others
}

// ClassExec is the class of sandboxes for code interpreters and other short
// work. It is the default.
const ClassExec = "exec"

var classes = map[string]class{
	ClassExec: {ttl: 15 * time.Minute, workdir: "/mnt/data", limits: Limits{Memory: 4 << 30, CPUs: 2, Pids: 512}},
}

// maxLife is the longest that a lease may be.
const maxLife = 24 * time.Hour

func findClass(name string) (class, error) {
	c, ok := classes[name]
	if !ok {
		names := slices.Sorted(maps.Keys(classes))
		return class{}, invalid("class %.80q: have %s", name, strings.Join(names, ", "))
	}
	return c, nil
}
