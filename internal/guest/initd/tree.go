package initd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// tree lists what is below a directory, and before that notes what changes
// there if it is asked to.
func (s *server) tree(c *conn, r *wire.Request) error {
	return s.user.do(func() error {
		var t *tracker
		if r.Tree.Track {
			var err error
			if t, err = newTracker(r.Path, &r.Tree); err != nil {
				return err
			}
			defer t.Close()
			if err := c.send(wire.KindOK, nil); err != nil {
				return err
			}
			if asked := t.wait(c); !asked {
				return nil
			}
		}
		return sendTree(c, r, t)
	})
}

// treePart is about how many bytes of a listing are sent at a time.
const treePart = 32 << 10

// sendTree sends the listing, in frames of some size.
func sendTree(c *conn, r *wire.Request, t *tracker) error {
	if err := c.queue(wire.AppendFrame(nil, wire.KindOK, nil)); err != nil {
		return err
	}
	part := make([]byte, 0, treePart)
	send := func() error {
		if len(part) == 0 {
			return nil
		}
		err := c.queue(wire.AppendFrame(nil, wire.KindData, part))
		part = part[:0]
		return err
	}
	w := newWalk(r.Path, &r.Tree)
	w.tracker = t
	w.entry = func(e *wire.TreeEntry) error {
		part = wire.AppendTreeEntry(part, e)
		if len(part) < treePart-2*syscall.PathMax {
			return nil
		}
		return send()
	}
	if err := errors.Join(w.run(), send()); err != nil {
		return err
	}
	return c.queue(wire.AppendFrame(nil, wire.KindEnd, nil))
}

// A walk goes over what is below a directory, by breadth, so that what the
// number of entries cuts is deep down. It opens folders only, and follows no
// link.
type walk struct {
	root    string
	spec    *wire.Tree
	except  map[string]bool
	skip    map[string]bool
	seen    int
	dirs    []string // still to be read, as paths below root
	tracker *tracker
	enter   func(dir string) (look bool) // before a folder is read; nil: look
	entry   func(*wire.TreeEntry) error  // nil: nobody wants to know
}

func newWalk(root string, spec *wire.Tree) *walk {
	return &walk{root: root, spec: spec, skip: setOf(spec.Skip), except: setOf(spec.Except), dirs: []string{""}}
}

func setOf(list []string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}

func (w *walk) run() error {
	for len(w.dirs) > 0 {
		dir := w.dirs[0]
		w.dirs = w.dirs[1:]
		if w.enter != nil && !w.enter(dir) {
			continue
		}
		more, err := w.read(dir)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// below is the path of a name in a folder, which "" is the root as.
func below(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// openDir opens a folder below the root, or the root.
func (w *walk) openDir(dir string) (*os.File, error) {
	flags := os.O_RDONLY | syscall.O_DIRECTORY | syscall.O_NONBLOCK
	if dir != "" {
		flags |= syscall.O_NOFOLLOW
	}
	return os.OpenFile(below(w.root, dir), flags, 0)
}

// read takes what is in a folder. It is false when no more is to be looked at.
func (w *walk) read(dir string) (more bool, err error) {
	f, err := w.openDir(dir)
	switch {
	case err == nil:
		defer f.Close()
	case dir == "":
		return false, err
	case errors.Is(err, fs.ErrNotExist):
		return true, nil // a program that still runs has removed it
	default:
		return true, w.omit(dir, wire.OmittedUnreadable)
	}
	fresh := w.tracker.fresh(dir)
	for {
		list, err := f.ReadDir(256)
		for _, d := range list {
			if w.seen == w.spec.Entries {
				return false, w.omit(dir, wire.OmittedEntries)
			}
			w.seen++
			if err := w.take(f, dir, d, fresh); err != nil {
				return false, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return true, w.omit(dir, wire.OmittedUnreadable)
		}
	}
}

func (w *walk) omit(path string, why wire.Omitted) error {
	if w.entry == nil {
		return nil
	}
	if path == "" {
		path = "."
	}
	return w.entry(&wire.TreeEntry{Stat: wire.Stat{Name: path}, Omitted: why})
}

// take takes one entry of a folder.
func (w *walk) take(f *os.File, dir string, d fs.DirEntry, fresh bool) error {
	path := below(dir, d.Name())
	if d.IsDir() && !w.passed(path, d.Name()) {
		if depth(path) > w.spec.Depth {
			if err := w.omit(path, wire.OmittedDepth); err != nil {
				return err
			}
		} else {
			w.dirs = append(w.dirs, path)
		}
	}
	if w.entry == nil {
		return nil
	}
	e := wire.TreeEntry{Stat: wire.Stat{Name: path, Mode: typeOf(d.Type())}}
	if fresh || w.tracker.touched(path) {
		var st syscall.Stat_t
		if err := control(f, func(fd int) error { return sys.LstatAt(fd, d.Name(), &st) }); err != nil {
			return nil // it has been removed since
		}
		e.Stat, e.Changed = statOf(path, &st), true
	}
	return w.entry(&e)
}

// passed reports whether a folder is not looked into.
func (w *walk) passed(path, name string) bool {
	return (w.spec.SkipHidden && name[0] == '.' || w.skip[name]) && !w.except[path]
}

// depth counts the folders of a path, itself included.
func depth(path string) int {
	n := 1
	for i := range len(path) {
		if path[i] == '/' {
			n++
		}
	}
	return n
}

// typeOf is the type of a file as in st_mode.
func typeOf(m fs.FileMode) uint32 {
	switch {
	case m.IsDir():
		return syscall.S_IFDIR
	case m&fs.ModeSymlink != 0:
		return syscall.S_IFLNK
	case m&fs.ModeNamedPipe != 0:
		return syscall.S_IFIFO
	case m&fs.ModeSocket != 0:
		return syscall.S_IFSOCK
	case m&fs.ModeCharDevice != 0:
		return syscall.S_IFCHR
	case m&fs.ModeDevice != 0:
		return syscall.S_IFBLK
	}
	return syscall.S_IFREG
}
