//go:build linux

package sandbox

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/internal/volume"
)

// A Class is a kind of sandbox: all that leases of it have in common.
type Class struct {
	Name string
	// TTL is the length of a lease that does not ask for another.
	TTL time.Duration
	// Workdir is where commands start and file names are relative to. It is
	// absolute.
	Workdir string
	// NeedsProject refuses leases that name no project.
	NeedsProject bool
	// Screen starts a desktop in each sandbox: an X server that speaks RFB at
	// localhost:5900 inside, of 1280 by 800, and a window manager. The recipe
	// "desktop" has the programs for it; a lease on an image that lacks them
	// is refused.
	Screen bool
	// Image is for leases that name none; "" is HostImage.
	Image string
	// Ceiling is how many sandboxes of the class an organisation may have
	// that are pending or running. 0 is no ceiling, which the zero Owner,
	// being no organisation, never has.
	Ceiling int
	// CPUs and Memory are for leases that ask for no others; 0 is 2
	// processors and 4 GiB. Pids is how many processes and threads a command
	// may have; 0 is 512.
	CPUs   float64
	Memory int64
	Pids   int
	// Disk is the size of a working directory of the sandbox's own, in
	// bytes, and Volume that of a project's; 0 is 2 GiB and 20 GiB.
	Disk, Volume int64
}

var builtinClasses = []Class{
	{Name: ClassExec, TTL: 15 * time.Minute, Workdir: "/mnt/data", Ceiling: 16},
	{Name: ClassDev, TTL: 4 * time.Hour, Workdir: "/work", NeedsProject: true},
	{Name: ClassDesktop, TTL: 4 * time.Hour, Workdir: "/work", NeedsProject: true, Screen: true},
}

// Classes returns the built-in classes, to be changed and put into
// Config.Classes.
func Classes() []Class { return slices.Clone(builtinClasses) }

const (
	defaultCPUs   = 2
	defaultMemory = 4 << 30
	defaultPids   = 512
	defaultDisk   = 2 << 30
	minDisk       = volume.MinSize
	maxPids       = hostPids / allPids
	minTTL        = time.Second
	defaultVolume = 20 << 30
)

// classTable is the classes by name.
func classTable(more []Class) (map[string]Class, error) {
	table := map[string]Class{}
	for _, c := range slices.Concat(builtinClasses, more) {
		if err := c.complete(); err != nil {
			return nil, err
		}
		table[c.Name] = c
	}
	return table, nil
}

func (c *Class) complete() error {
	switch {
	case c.Name == "":
		return invalid("a class without a name")
	case !path.IsAbs(c.Workdir) || path.Clean(c.Workdir) != c.Workdir || c.Workdir == "/":
		return invalid("class %.80q: workdir %.80q: want a clean absolute path below /", c.Name, c.Workdir)
	case c.TTL <= 0:
		return invalid("class %.80q: TTL %v: want more than 0", c.Name, c.TTL)
	case c.TTL < minTTL:
		return invalid("class %.80q: TTL %v: the least is %v", c.Name, c.TTL, minTTL)
	case c.Ceiling < 0:
		return invalid("class %.80q: a negative ceiling", c.Name)
	case c.Disk != 0 && c.Disk < minDisk || c.Volume != 0 && c.Volume < minDisk:
		return invalid("class %.80q: a disk of less than %d MiB", c.Name, minDisk>>20)
	case c.Pids < 0 || c.Pids > maxPids:
		return invalid("class %.80q: %d processes: at most %d", c.Name, c.Pids, maxPids)
	case taken(c.Workdir):
		return invalid("class %.80q: workdir %.80q: there is something else in every sandbox", c.Name, c.Workdir)
	}
	c.Image = cmp.Or(c.Image, HostImage)
	c.CPUs, c.Memory, c.Pids = cmp.Or(c.CPUs, defaultCPUs), cmp.Or(c.Memory, defaultMemory), cmp.Or(c.Pids, defaultPids)
	c.Disk, c.Volume = cmp.Or(c.Disk, defaultDisk), cmp.Or(c.Volume, defaultVolume)
	if err := checkLimits(c.CPUs, c.Memory); err != nil {
		return fmt.Errorf("class %.80q: %w", c.Name, err)
	}
	return nil
}

// taken reports whether a path is, or is below, one at which every sandbox has
// something of its own.
func taken(workdir string) bool {
	top, _, _ := strings.Cut(workdir[1:], "/")
	switch top {
	case "bin", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr":
		return true
	}
	return workdir == "/tmp" || workdir == "/var/tmp" || workdir == homeDir
}

func (r *Runtime) class(name string) (Class, error) {
	c, ok := r.classes[name]
	if !ok {
		names := slices.Sorted(maps.Keys(r.classes))
		return Class{}, invalid("class %.80q: have %s", name, strings.Join(names, ", "))
	}
	return c, nil
}

// class is the sandbox's, also if the Runtime that leased it had another table.
func (s *instance) class() Class {
	c, ok := s.runtime.classes[s.row.Class]
	if !ok {
		c = Class{Name: s.row.Class, TTL: s.row.TTL, Workdir: s.row.Workdir}
		if c.complete() != nil {
			return s.runtime.classes[ClassExec]
		}
	}
	return c
}
