//go:build linux

package sandbox

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// A scratch is a file system of one sandbox, which goes with it. In the engine
// it is a tmpfs, so it has a size and takes no time to make; but the pages are
// those of a file on this machine's disk. So what programs write there is page
// cache, which the machine takes back when it is short, and not memory of the
// sandbox's. Where the disk itself is full, programs are told so, and no other
// sandbox is the worse for it.
//
// Only contents are on the disk. Names, links and attributes are in the
// engine's memory, some 2 KiB for each file.
type scratch struct {
	name    string // of its folder on this machine
	at      string
	size    int64
	options []string
}

// scratchPart is how much smaller than the workdir the other scratches are:
// all together they are less than twice its size.
const scratchPart = 4

// scratches are all that programs can write to and that is neither in memory
// nor on a volume.
func scratches(l *layout) []scratch {
	user := strconv.Itoa(defaultUID)
	own := []string{"mode=0755", "uid=" + user, "gid=" + user}
	everyone := []string{"mode=1777"}
	list := []scratch{
		{"home", homeDir, l.disk / scratchPart, own},
		{"tmp", "/tmp", l.disk / scratchPart, everyone},
		{"vartmp", "/var/tmp", l.disk / scratchPart, everyone},
	}
	if l.volume == "" {
		list = append(list, scratch{"data", l.workdir, l.disk, own})
	}
	return list
}

// folder has the file with the pages. It belongs to root alone.
func (s *scratch) folder(p places) string { return filepath.Join(p.disk, s.name) }

// mount is a bind mount of the folder, as which the engine would not look at
// the hints; they make another thing of it.
func (s *scratch) mount(p places) specs.Mount {
	return specs.Mount{Destination: s.at, Type: "bind", Source: s.folder(p), Options: []string{"bind", "nosuid", "nodev"}}
}

// hint has the engine mount a tmpfs in place of the folder, with a file there
// for its pages. These are the annotations of a Kubernetes emptyDir.
func (s *scratch) hint(annotations map[string]string, p places) {
	options := tmpfs(s.at, s.size, s.options...).Options
	for key, value := range map[string]string{
		"type":    "tmpfs",
		"share":   "container", // with nobody, so nothing is asked of the host
		"source":  s.folder(p), // which says whose hints these are
		"options": strings.Join(options, ","),
	} {
		annotations["dev.gvisor.spec.mount."+s.name+"."+key] = value
	}
}
