package exec

import (
	"context"
	"errors"
	"io/fs"
	"maps"
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
	WhyTotal      Why = "total"      // after files of Limits.Total
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

// An entry is a regular file of a session.
type entry struct {
	path string
	info fs.FileInfo // nil if the program cannot have changed it
}

func changeTime(info fs.FileInfo) time.Time {
	if c, ok := info.(interface{ ChangeTime() time.Time }); ok {
		return c.ChangeTime()
	}
	return time.Time{} // the driver does not tell
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

// byID returns the file of a session with that id, or nil.
func (t *tree) byID(session, id string) *entry {
	if t == nil {
		return nil
	}
	i := slices.IndexFunc(t.files, func(e entry) bool { return FileID(session, e.path) == id })
	if i < 0 {
		return nil
	}
	return &t.files[i]
}

// treeOptions say what of a session is looked at: the same for a report and
// for a listing, so that the two cannot disagree. The hidden folders that
// paths are in are looked into as well.
func (it *Interpreter) treeOptions(paths []string) sandbox.TreeOptions {
	shown := map[string]bool{}
	for _, p := range paths {
		for p = path.Dir(p); p != "." && !shown[p]; p = path.Dir(p) {
			shown[p] = true
		}
	}
	l := &it.cfg.Limits
	return sandbox.TreeOptions{
		Entries: l.Entries, Depth: l.Depth,
		SkipHidden: true, Skip: caches, Except: slices.Collect(maps.Keys(shown)),
	}
}

// look goes over the files of a session.
func (it *Interpreter) look(ctx context.Context, s *session, paths []string) (*tree, error) {
	list := s.Tree
	if s.stage != nil {
		list = s.stage.Tree
	}
	t, err := list(ctx, it.treeOptions(paths))
	if err != nil {
		return nil, err
	}
	return it.regular(t), nil
}

// regular takes the regular files of a session's tree.
func (it *Interpreter) regular(all *sandbox.Tree) *tree {
	var t tree
	for _, o := range all.Omitted {
		t.omitted.add(o.Path, Why(o.Why))
	}
	for i := range all.Entries {
		e := &all.Entries[i]
		switch {
		case !e.Type.IsRegular() || isOwn(e.Path):
		case !utf8.ValidString(e.Path):
			t.omitted.add(e.Path, WhyName)
		case len(e.Path) > it.cfg.Limits.Path:
			t.omitted.add(e.Path, WhyPath)
		default:
			t.files = append(t.files, entry{e.Path, e.Info})
		}
	}
	return &t
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
