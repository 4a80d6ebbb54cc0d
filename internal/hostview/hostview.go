// Package hostview prepares a read-only view of this machine's own programs as a root filesystem.
//
// A view is a skeleton and a list of binds. The skeleton holds directories, symlinks and small files: an
// /etc made up for the guest, and copies of the few host settings that programs need to start. The binds
// show the host's /usr and its known toolchains read-only over the skeleton.
//
// Both are allow-lists. Whatever is not named in this package stays out of the view, so a new secret on
// the host cannot leak because nobody thought of it. The host's own /usr and /etc are trusted to be the
// work of its administrator; what is readable by every user of the host is what a guest may read. Run
// guests as an ordinary user: files in /usr that only root may read are held back by their mode alone.
//
// The package is for Linux.
package hostview

import (
	"errors"
	"fmt"
	"os"
)

// Bind is a directory or a regular file of this machine that the view shows read-only.
// Both paths are absolute; Source has symlinks resolved.
type Bind struct{ Source, Target string }

// View is a root filesystem in two parts, to be put together by a runtime.
type View struct {
	// Root is the skeleton. It is owned by the user that built it and not writable by others. Every
	// target of Binds exists in it, as a directory or as an empty file, and so do the usual mount
	// points: /proc, /sys, /dev, /tmp, /run, /mnt/data, /home/sandbox and so on. A runtime must not
	// write into it. Its last element is the digest that Prune knows it by.
	Root string

	Binds []Bind   // sorted by target; none lies inside another
	Env   []string // PATH, with the folders of the toolchains found
}

// attempts is how often Build starts again when the host's files change under it, as during an upgrade.
const attempts = 3

// Build makes the view of this machine in dir, or finds it there unchanged. Call it at every start.
//
// The skeleton is a folder of dir named by the digest of what went into it. It appears whole or not at
// all, and a changed host gives a new folder beside the old one, which sandboxes may still be using;
// Prune removes those. What a crash has damaged is replaced. Build may run in several processes at once.
//
// Dir is made if needed. It must belong to the caller or to root, and be writable by nobody else.
func Build(dir string) (View, error) {
	return build(dir, host{root: "/", getenv: os.Getenv})
}

func build(dir string, h host) (View, error) {
	s, err := openStore(dir)
	if err != nil {
		return View{}, err
	}
	var view View
	for range attempts {
		view, err = refresh(s, h)
		if !errors.Is(err, errChanged) {
			break
		}
	}
	return view, err
}

func refresh(s store, h host) (View, error) {
	p, err := survey(h)
	if err != nil {
		return View{}, fmt.Errorf("view of %s: %w", h.root, err)
	}
	root, err := s.install(p)
	if err != nil {
		return View{}, fmt.Errorf("view of %s: %w", h.root, err)
	}
	return View{Root: root, Binds: p.binds, Env: p.env()}, nil
}

// survey looks at the host and plans its view, without writing anything.
func survey(h host) (*plan, error) {
	p := newPlan(h.path("/etc"))
	p.addMountPoints()
	for _, add := range []func(*plan, host) error{
		addSystem, addGo, addRust, addNode, addPython, addHostEtc,
	} {
		if err := add(p, h); err != nil {
			return nil, err
		}
	}
	addMadeEtc(p, h) // last, for it says what PATH has become
	return p, nil
}
