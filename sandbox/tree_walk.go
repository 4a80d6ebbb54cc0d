package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// A treeWalk makes a Tree of an fs.FS, one directory after the other.
type treeWalk struct {
	fsys fs.FS
	o    TreeOptions
	tree Tree
	dirs []string // still to be read, as paths below the Tree's directory
	seen int
}

func walkTree(fsys fs.FS, o TreeOptions) (*Tree, error) {
	if !fs.ValidPath(o.Dir) {
		return nil, &fs.PathError{Op: "readdir", Path: o.Dir, Err: fs.ErrInvalid}
	}
	w := treeWalk{fsys: fsys, o: o, dirs: []string{"."}}
	for len(w.dirs) > 0 {
		dir := w.dirs[0]
		w.dirs = w.dirs[1:]
		more, err := w.read(dir)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	return w.tree.sort(), nil
}

func (w *treeWalk) omit(path string, why OmissionReason) {
	w.tree.Omitted = append(w.tree.Omitted, Omission{path, why})
}

// read takes what is in a directory. It is false when no more is to be looked
// at.
func (w *treeWalk) read(dir string) (more bool, err error) {
	more, err = w.readParts(dir)
	switch {
	case err == nil:
		return more, nil
	case dir == "." || errors.Is(err, ErrNotFound) || !isFileError(err):
		return false, err
	case errors.Is(err, fs.ErrNotExist): // a program has removed it
	default:
		w.omit(dir, OmittedUnreadable)
	}
	return true, nil
}

// isFileError reports whether an error is about a file, not about the sandbox
// or the call.
func isFileError(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid)
}

func (w *treeWalk) readParts(dir string) (more bool, err error) {
	f, err := w.fsys.Open(w.o.within(dir))
	if err != nil {
		return false, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return false, &fs.PathError{Op: "readdir", Path: dir, Err: errors.ErrUnsupported}
	}
	for {
		list, err := d.ReadDir(1024)
		for _, e := range list {
			if w.seen == w.o.Entries {
				w.omit(dir, OmittedEntries)
				return false, nil
			}
			w.seen++
			w.take(path.Join(dir, e.Name()), e)
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

func (w *treeWalk) take(p string, e fs.DirEntry) {
	if e.IsDir() && !w.passes(p, e.Name()) {
		if strings.Count(p, "/") >= w.o.Depth {
			w.omit(p, OmittedDepth)
		} else {
			w.dirs = append(w.dirs, p)
		}
	}
	if info, err := e.Info(); err == nil { // else it has been removed
		w.tree.Entries = append(w.tree.Entries, TreeEntry{p, e.Type(), info})
	}
}

// passes reports whether a directory is not looked into.
func (w *treeWalk) passes(p, name string) bool {
	skip := w.o.SkipHidden && strings.HasPrefix(name, ".") || slices.Contains(w.o.Skip, name)
	return skip && !slices.Contains(w.o.Except, p)
}

// A comparison is a Tracker that looks twice.
type comparison struct {
	fsys   fs.FS
	o      TreeOptions
	before map[string]stamp
}

// A stamp is what tells a file from itself after a change.
type stamp struct {
	size    int64
	modTime time.Time
	changed time.Time // zero where the FS does not tell
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modTime: info.ModTime()}
	if c, ok := info.(interface{ ChangeTime() time.Time }); ok {
		s.changed = c.ChangeTime()
	}
	return s
}

func (s stamp) equal(o stamp) bool {
	return s.size == o.size && s.modTime.Equal(o.modTime) && s.changed.Equal(o.changed)
}

func newComparison(fsys fs.FS, o TreeOptions) (*comparison, error) {
	t, err := walkTree(fsys, o)
	if err != nil {
		return nil, err
	}
	c := &comparison{fsys: fsys, o: o, before: make(map[string]stamp, len(t.Entries))}
	for i := range t.Entries {
		c.before[t.Entries[i].Path] = stampOf(t.Entries[i].Info)
	}
	return c, nil
}

func (c *comparison) Tree() (*Tree, error) {
	t, err := walkTree(c.fsys, c.o)
	if err != nil {
		return nil, err
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		if was, ok := c.before[e.Path]; ok && was.equal(stampOf(e.Info)) {
			e.Info = nil
		}
	}
	return t, nil
}

func (c *comparison) Close() error { return nil }
