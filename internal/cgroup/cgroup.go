// Package cgroup makes a control group of this machine for each sandbox, so
// that the kernel holds the sandbox's engine to limits.
//
// A machine has cgroup v1, with a hierarchy for each controller or a few, or
// v2, with one for all, or is a hybrid that has some controllers in either. A
// Group is one folder in each hierarchy that has a controller we want, below
// the place where this process is itself: whoever has limited us limits what
// we start as well.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The controllers that matter here.
const (
	Memory = "memory"
	CPU    = "cpu"
	Pids   = "pids"

	cpuacct = "cpuacct" // of v1: counts what CPU limits
)

// wanted are the controllers that limit, as they are listed.
var wanted = []string{Memory, CPU, Pids}

// Limits are what a group is held to. Zero is no limit.
type Limits struct {
	Memory int64   // bytes, page cache included
	CPUs   float64 // processors' worth of time
	Weight float64 // share of the time when there is too little; 1 is what a process by itself has
	Pids   int     // threads of this machine
}

// A Controller tells what can be limited here.
type Controller struct {
	Name   string
	Usable bool
	Where  string // the folder in which groups are made
	Why    string // it is not usable
}

// A Host is the control groups of this machine, as far as this process can
// make some.
type Host struct {
	places []Place
	why    map[string]string // of the controllers that are in none
}

// A Place is a folder in one hierarchy: of a Host the one in which it makes
// groups, of a Group its own.
type Place struct {
	Dir         string   `json:"dir"`
	Unified     bool     `json:"unified,omitempty"` // v2
	Controllers []string `json:"controllers"`
}

func (p *Place) has(controller string) bool { return slices.Contains(p.Controllers, controller) }

func (p *Place) path(name string) string { return filepath.Join(p.Dir, name) }

// Open finds out what can be used here. On a cgroup v2 it turns on what groups
// below ours need.
func Open() *Host { return open("/proc/self") }

// Controllers lists memory, cpu and pids.
func (h *Host) Controllers() []Controller {
	list := make([]Controller, 0, len(wanted))
	for _, name := range wanted {
		c := Controller{Name: name, Why: h.why[name]}
		if i := slices.IndexFunc(h.places, func(p Place) bool { return p.has(name) }); i >= 0 {
			c.Usable, c.Where, c.Why = true, h.places[i].Dir, ""
		}
		list = append(list, c)
	}
	return list
}

// prefix begins the names of groups.
const prefix = "sandbox-"

// Group returns the group of a sandbox. Nothing is made yet, so that whoever
// makes it can note first what there will be to remove.
func (h *Host) Group(id string) *Group {
	g := &Group{Places: slices.Clone(h.places)}
	for i := range g.Places {
		g.Places[i].Dir = g.Places[i].path(prefix + id)
	}
	return g
}

// List lists the groups that exist in our places, of whatever program, by the
// ids of their sandboxes.
func (h *Host) List() ([]string, error) {
	var ids []string
	for _, p := range h.places {
		entries, err := os.ReadDir(p.Dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if id, ok := strings.CutPrefix(e.Name(), prefix); ok && e.IsDir() {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Sweep removes the groups in our places that have been there for so long and
// in which there is nobody: of programs that were killed, and whose sandboxes
// nothing else tells of. Only those that ours
// tells by the id are looked at.
func (h *Host) Sweep(age time.Duration, ours func(id string) bool) {
	for _, p := range h.places {
		entries, _ := os.ReadDir(p.Dir)
		for _, e := range entries {
			id, ok := strings.CutPrefix(e.Name(), prefix)
			info, err := e.Info()
			if !ok || err != nil || !ours(id) || time.Since(info.ModTime()) < age {
				continue
			}
			_ = unix.Rmdir(p.path(e.Name())) // where there is somebody, it fails
		}
	}
}

// A Group is the control group of one sandbox. It is safe for concurrent use,
// and can be kept as JSON.
type Group struct {
	Places []Place `json:"places"`
}

// Check refuses a group, read back from somewhere, that is not id's.
func (g *Group) Check(id string) error {
	for _, p := range g.Places {
		if !filepath.IsAbs(p.Dir) || filepath.Clean(p.Dir) != p.Dir || filepath.Base(p.Dir) != prefix+id {
			return fmt.Errorf("cgroup: %q is not the group of %s", p.Dir, id)
		}
	}
	return nil
}

// place returns where the group has a controller; nil is nowhere.
func (g *Group) place(controller string) *Place {
	for i := range g.Places {
		if g.Places[i].has(controller) {
			return &g.Places[i]
		}
	}
	return nil
}

// Make makes the group with these limits. One that exists gets them.
func (g *Group) Make(l Limits) error {
	for _, p := range g.Places {
		if err := os.Mkdir(p.Dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	return g.Limit(l)
}
