package sandbox

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// TreeOptions say what of a directory, and of those below it, a Tree has.
type TreeOptions struct {
	// Dir is the directory, relative to the workdir or absolute and within
	// it; "" is the workdir.
	Dir string
	// Entries is how many files and directories are looked at; 0 is 100,000.
	// It goes by breadth, so what is left out is deep down.
	Entries int
	// Depth is how many directories deep it goes; 0 is 100.
	Depth int
	// SkipHidden leaves out what is in directories whose names begin with a
	// dot, and Skip what is in those of these names. Except are paths below
	// Dir that are looked into all the same.
	SkipHidden   bool
	Skip, Except []string
}

const (
	defaultTreeEntries = 100_000
	defaultTreeDepth   = 100
)

func completeTree(o TreeOptions) (TreeOptions, error) {
	if o.Entries < 0 || o.Depth < 0 {
		return o, invalid("a negative limit of a tree")
	}
	if o.Entries == 0 {
		o.Entries = defaultTreeEntries
	}
	if o.Depth == 0 {
		o.Depth = defaultTreeDepth
	}
	if o.Dir == "" {
		o.Dir = "."
	}
	return o, nil
}

// A Tree is what is below a directory, by path.
type Tree struct {
	Entries []TreeEntry
	Omitted []Omission // what limits left out, in the order in which it was come by
}

// A TreeEntry is one file or directory of a Tree, as lstat sees it.
type TreeEntry struct {
	Path string      // below the Tree's directory; it need not be UTF-8
	Type fs.FileMode // the type bits alone
	// Info is what else there is to know. In the Tree of a Tracker only what
	// has, or may have, changed has it.
	Info fs.FileInfo
}

// An Omission is what a Tree leaves out, and why.
type Omission struct {
	Path string // "." is the Tree's directory itself
	Why  OmissionReason
}

// An OmissionReason is why a Tree leaves something out.
type OmissionReason string

// The reasons.
const (
	OmittedDepth      OmissionReason = "depth"      // a directory deeper than TreeOptions.Depth
	OmittedEntries    OmissionReason = "entries"    // the rest of this directory, and those after it
	OmittedUnreadable OmissionReason = "unreadable" // a directory that the sandbox's user may not read
)

// sort brings the entries into the order of their paths, each once: what is
// renamed while its directory is read may be come by again.
func (t *Tree) sort() *Tree {
	slices.SortFunc(t.Entries, func(a, b TreeEntry) int {
		switch c := strings.Compare(a.Path, b.Path); {
		case c == 0 && a.Info == nil && b.Info != nil: // what has changed counts
			return 1
		case c == 0 && a.Info != nil && b.Info == nil:
			return -1
		default:
			return c
		}
	})
	t.Entries = slices.CompactFunc(t.Entries, func(a, b TreeEntry) bool { return a.Path == b.Path })
	return t
}

// Find returns what is at a path of the Tree, or nil.
func (t *Tree) Find(path string) *TreeEntry {
	i, ok := slices.BinarySearchFunc(t.Entries, path, func(e TreeEntry, p string) int { return strings.Compare(e.Path, p) })
	if !ok {
		return nil
	}
	return &t.Entries[i]
}

// Tree lists what is below a directory. It opens no file and follows no link.
// What a program changes meanwhile may be in it or not.
//
// A Driver that is no TreeLister is asked for one directory after the other.
func (s *Sandbox) Tree(ctx context.Context, o TreeOptions) (*Tree, error) {
	o, err := completeTree(o)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: o.Dir, Err: err}
	}
	if d, ok := s.driver.(TreeLister); ok {
		return d.Tree(ctx, s.id, o)
	}
	return walkTree(s.FS(ctx), o)
}

// A Tracker knows what has changed below a directory since Track made it. It
// is used by one goroutine at a time.
type Tracker interface {
	// Tree is like Sandbox.Tree, with the Info of what has changed since: what
	// has been made, written to or moved, or is in a directory that has. That
	// the content is another is not said; that it is the same is, of all that
	// has no Info. It is called once.
	//
	// Not noticed is a write through a second name of a file, by a hard link,
	// that is in a directory which the options leave out.
	Tree() (*Tree, error)
	// Close ends the tracking, which Tree does not.
	Close() error
}

// Track begins to take note of what changes below a directory. The Tracker
// ends with ctx, and is to be closed.
//
// Where the Driver is no TreeLister it compares the sizes and times of all
// files.
func (s *Sandbox) Track(ctx context.Context, o TreeOptions) (Tracker, error) {
	o, err := completeTree(o)
	if err != nil {
		return nil, &fs.PathError{Op: "track", Path: o.Dir, Err: err}
	}
	if d, ok := s.driver.(TreeLister); ok {
		return d.Track(ctx, s.id, o)
	}
	return newComparison(s.FS(ctx), o)
}

// within is the path of a name of a Tree for the FS that it was made of.
func (o *TreeOptions) within(name string) string { return path.Join(o.Dir, name) }
