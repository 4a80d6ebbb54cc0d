// Package rmtree removes folders that may hold anything.
package rmtree

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// removeDepth is how many folders of a tree are open at a time.
const removeDepth = 64

// Remove removes a folder with what a guest has put into it: links are
// removed, not followed, and a tree may be deeper than this process could
// have files open. What lies too deep is moved up and removed from there.
func Remove(path string) error {
	top, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer top.Close()
	t := &treeRemover{top: top}
	for {
		t.moved = false
		if err := t.clear(top, 0); err != nil {
			return err
		}
		if !t.moved {
			return os.Remove(path)
		}
	}
}

type treeRemover struct {
	top   *os.File
	next  int
	moved bool // something has been moved up since the last round began
}

func (t *treeRemover) clear(dir *os.File, depth int) error {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if err := t.remove(dir, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *treeRemover) remove(dir *os.File, name string, depth int) error {
	at := int(dir.Fd())
	err := unix.Unlinkat(at, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	if depth >= removeDepth {
		t.moved = true
		t.next++
		return unix.Renameat(at, name, int(t.top.Fd()), fmt.Sprintf(".removed-%d", t.next))
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	child := os.NewFile(uintptr(fd), name)
	err = t.clear(child, depth+1)
	child.Close()
	if err != nil {
		return err
	}
	return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
}
