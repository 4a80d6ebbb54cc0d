package exec

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hanzoai/sandbox/sandbox"
)

// Why says why a file is not reported.
type Why string

// The reasons.
const (
	WhyFiles      Why = "files"      // more than Limits.Files
	WhyFileSize   Why = "size"       // larger than Limits.FileSize
	WhyDepth      Why = "depth"      // a folder deeper than Limits.Depth
	WhyPath       Why = "path"       // a path longer than Limits.Path
	WhyName       Why = "name"       // a path that is not UTF-8
	WhyEntries    Why = "entries"    // more than Limits.Entries: the rest of this folder, and those after it
	WhyUnreadable Why = "unreadable" // it could not be read
)

// An Omission is a file or folder that is not reported.
type Omission struct {
	Path string // "." is the working directory itself
	Why  Why
}

// Omitted is what limits leave out of a report.
type Omitted struct {
	Count int        // of all that is known of
	First []Omission // at most 20
}

const firstOmitted = 20

func (o *Omitted) add(path string, why Why) {
	o.Count++
	if len(o.First) < firstOmitted {
		o.First = append(o.First, Omission{strings.ToValidUTF8(path, "\uFFFD"), why})
	}
}

// An entry is a regular file as a traversal finds it.
type entry struct {
	path string
	info fs.FileInfo
}

// changed is when anything about the file last changed; zero if the driver
// does not tell.
func (e *entry) changed() time.Time { return changeTime(e.info) }

func changeTime(info fs.FileInfo) time.Time {
	if c, ok := info.(interface{ ChangeTime() time.Time }); ok {
		return c.ChangeTime()
	}
	return time.Time{}
}

// A tree is the regular files of a session, by path.
type tree struct {
	files   []entry
	omitted Omitted
}

// find returns the file at path, or nil.
func (t *tree) find(path string) *entry {
	i, ok := slices.BinarySearchFunc(t.files, path, func(e entry, p string) int { return strings.Compare(e.path, p) })
	if !ok {
		return nil
	}
	return &t.files[i]
}

// A walk is a traversal of a session: the only one there is, so that no two
// answers disagree. It goes by breadth, so that what Limits.Entries cuts is
// deep down, and reads each folder once. It opens no file and follows no link.
type walk struct {
	fsys   fs.FS
	limits *Limits
	shown  func(dir string) bool // a folder that is looked into though hidden
	seen   int
	dirs   []string         // still to be read
	sizes  map[string]int64 // of those that are large
	tree   tree
}

// look goes over the files of a session. The hidden folders that paths are in
// are looked into as well. Root describes the working directory, if that is
// known.
func (it *Interpreter) look(ctx context.Context, sb *sandbox.Sandbox, root fs.FileInfo, paths ...string) (*tree, error) {
	shown := map[string]bool{}
	for _, p := range paths {
		for p = path.Dir(p); p != "." && !shown[p]; p = path.Dir(p) {
			shown[p] = true
		}
	}
	w := walk{
		fsys: sb.FS(ctx), limits: &it.cfg.Limits, dirs: []string{"."},
		shown: func(dir string) bool { return shown[dir] }, sizes: map[string]int64{},
	}
	if root == nil {
		root, _ = fs.Stat(w.fsys, ".") // else reading it says why
	}
	if root != nil {
		w.sizes["."] = root.Size()
	}
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
	slices.SortFunc(w.tree.files, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return &w.tree, nil
}

// read takes what is in a folder. An error is one of the session, not of the
// folder. It is false when there is no more to be looked at.
func (w *walk) read(dir string) (more bool, err error) {
	list, err := w.list(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && dir != ".":
		return true, nil // a program that still runs has removed it
	case err != nil && (dir == "." || isSession(err)):
		return false, err
	case err != nil:
		w.tree.omitted.add(dir, WhyUnreadable)
		return true, nil
	}
	for _, d := range list {
		p := path.Join(dir, d.Name())
		if isOwn(p) {
			continue
		}
		if w.seen == w.limits.Entries {
			w.tree.omitted.add(dir, WhyEntries)
			return false, nil
		}
		w.seen++
		w.take(p, d)
	}
	return true, nil
}

// largeDir is the size of a folder that may have more entries than are looked at.
const largeDir = 128 << 10

// list reads a folder: whole and sorted, which is sooner done, or, if it is
// large, no more of it than is looked at, as it comes.
func (w *walk) list(dir string) ([]fs.DirEntry, error) {
	if w.sizes[dir] < largeDir {
		return fs.ReadDir(w.fsys, dir)
	}
	f, err := w.fsys.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return fs.ReadDir(w.fsys, dir)
	}
	var all []fs.DirEntry
	for len(all) <= w.limits.Entries-w.seen {
		list, err := d.ReadDir(1024)
		all = append(all, list...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (w *walk) take(p string, d fs.DirEntry) {
	isDir := d.IsDir()
	switch {
	case isDir && isHidden(d.Name()) && !w.shown(p):
	case !isDir && !d.Type().IsRegular():
	case !utf8.ValidString(p):
		w.tree.omitted.add(p, WhyName)
	case len(p) > w.limits.Path:
		w.tree.omitted.add(p, WhyPath)
	case isDir && strings.Count(p, "/") >= w.limits.Depth:
		w.tree.omitted.add(p, WhyDepth)
	case isDir:
		w.dirs = append(w.dirs, p)
		if info, err := d.Info(); err == nil && info.Size() >= largeDir {
			w.sizes[p] = info.Size()
		}
	default:
		if info, err := d.Info(); err == nil {
			w.tree.files = append(w.tree.files, entry{p, info})
		}
	}
}

// isSession reports whether err is about a session as a whole, or the call.
func isSession(err error) bool {
	for _, kind := range []error{
		sandbox.ErrNotFound, sandbox.ErrEnded, sandbox.ErrLost, sandbox.ErrConflict, sandbox.ErrClosed,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
