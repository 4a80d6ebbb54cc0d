package main

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// links are those of a folder that is downloaded. They are made when all else
// is there, so that nothing is written through them.
type links struct {
	list  []link
	bytes int
}

type link struct{ name, target string }

// maxLinkBytes bounds what is kept of links until then.
const maxLinkBytes = 64 << 20

func (l *links) add(name, target string) error {
	if l.bytes += len(name) + len(target); l.bytes > maxLinkBytes {
		return errors.New("the folder has too many links")
	}
	l.list = append(l.list, link{name, target})
	return nil
}

// make makes those that lead to somewhere in root. The others would have
// programs of this machine follow a sandbox to where it has no business.
func (l *links) make(root *os.Root, leftOut func(name, why string)) error {
	var made []link
	for _, k := range l.list {
		if path.IsAbs(k.target) || turnsBack(k.target) || !filepath.IsLocal(path.Join(path.Dir(k.name), k.target)) {
			leftOut(k.name, leadsOut)
			continue
		}
		if there, err := root.Readlink(k.name); err == nil && there == k.target {
			continue
		}
		if err := root.Remove(k.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := root.Symlink(k.target, k.name); err != nil {
			return err
		}
		made = append(made, k)
	}
	// A link may lead out by way of another one, whatever it looks like.
	for _, k := range made {
		if _, err := root.Stat(k.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			leftOut(k.name, leadsOut)
			if err := root.Remove(k.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// turnsBack reports whether a link goes up after it has gone down. Where it
// leads is not known, then: what it goes down to can become another link.
func turnsBack(target string) bool {
	down := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if down {
				return true
			}
		default:
			down = true
		}
	}
	return false
}

const leadsOut = "it is a link that leads out of the folder, or could"
