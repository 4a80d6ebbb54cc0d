package initd

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// listed is what a walk finds, with a + after what has changed.
func listed(t *testing.T, root string, spec wire.Tree, tr *tracker) string {
	t.Helper()
	var list []string
	w := newWalk(root, &spec)
	w.tracker = tr
	w.entry = func(e *wire.TreeEntry) error {
		name := e.Name
		if e.Changed {
			name += "+"
		}
		if e.Omitted != 0 {
			name += "!"
		}
		list = append(list, name)
		return nil
	}
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func startTracking(t *testing.T, root string, spec wire.Tree) *tracker {
	t.Helper()
	tr, err := newTracker(root, &spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func all() wire.Tree { return wire.Tree{Entries: 1000, Depth: 10} }

func TestTracker(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(at func(string) string) error
		want   string
	}{
		{"nothing", func(func(string) string) error { return nil }, "a a/f a/sub a/sub/f b f"},
		{"read", func(at func(string) string) error { _, err := os.ReadFile(at("f")); return err }, "a a/f a/sub a/sub/f b f"},
		{"written", func(at func(string) string) error { return os.WriteFile(at("a/sub/f"), []byte("x"), 0o644) }, "a a/f a/sub a/sub/f+ b f"},
		{"truncated", func(at func(string) string) error { return os.Truncate(at("f"), 0) }, "a a/f a/sub a/sub/f b f+"},
		{"mode", func(at func(string) string) error { return os.Chmod(at("f"), 0o600) }, "a a/f a/sub a/sub/f b f"},
		{"made", func(at func(string) string) error { return os.WriteFile(at("b/new"), nil, 0o644) }, "a a/f a/sub a/sub/f b b/new+ f"},
		{"linked", func(at func(string) string) error { return os.Link(at("f"), at("b/link")) }, "a a/f a/sub a/sub/f b b/link+ f"},
		{"renamed", func(at func(string) string) error { return os.Rename(at("f"), at("b/f")) }, "a a/f a/sub a/sub/f b b/f+"},
		{"removed", func(at func(string) string) error { return os.RemoveAll(at("a/sub")) }, "a a/f b f"},
		{"folder moved", func(at func(string) string) error { return os.Rename(at("a"), at("b/a")) }, "b b/a+ b/a/f+ b/a/sub+ b/a/sub/f+ f"},
		{"folder made", func(at func(string) string) error {
			return os.MkdirAll(at("a/new/deep"), 0o755)
		}, "a a/f a/new+ a/new/deep+ a/sub a/sub/f b f"},
		{"folder in the place of another", func(at func(string) string) error {
			if err := os.Rename(at("a/sub"), at("b/sub")); err != nil {
				return err
			}
			return os.Mkdir(at("a/sub"), 0o755)
		}, "a a/f a/sub+ b b/sub+ b/sub/f+ f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			root := tree(t, map[string]os.FileMode{"f": 0o644, "a/f": 0o644, "a/sub/f": 0o644, "b": os.ModeDir | 0o755})
			tr := startTracking(t, root, all())
			is.NoErr(c.change(func(name string) string { return filepath.Join(root, name) }))
			tr.drain()
			is.Equal(listed(t, root, all(), tr), c.want)
		})
	}
}

// A folder that was not watched, for whatever reason, may have changed.
func TestTrackerWithoutAWatch(t *testing.T) {
	is := is.New(t)
	root := tree(t, map[string]os.FileMode{"a/f": 0o644, ".h/f": 0o644})
	spec := all()
	spec.SkipHidden = true
	tr := startTracking(t, root, spec)
	is.Equal(listed(t, root, spec, tr), ".h a a/f")
	is.Equal(listed(t, root, all(), tr), ".h .h/f+ a a/f")
	tr.lost = true
	is.Equal(listed(t, root, spec, tr), ".h+ a+ a/f+")
}

// What writes faster than is read from is not kept in memory.
func TestTrackerIsBounded(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	tr := startTracking(t, root, all())
	tr.seen = make(map[string]bool, maxTouched)
	for i := range maxTouched {
		tr.seen[strconv.Itoa(i)] = true
	}
	is.NoErr(os.WriteFile(filepath.Join(root, "f"), nil, 0o644))
	tr.drain()
	is.True(tr.lost)
	is.True(len(tr.seen) <= maxTouched)
}

func TestWalkLimits(t *testing.T) {
	is := is.New(t)
	root := tree(t, map[string]os.FileMode{"a/b/c/f": 0o644, "x": 0o644, "y": 0o644})
	is.NoErr(os.Symlink("/", filepath.Join(root, "link")))
	is.Equal(listed(t, root, wire.Tree{Entries: 100, Depth: 2}, nil), "a+ a/b+ a/b/c! a/b/c+ link+ x+ y+")
	is.Equal(listed(t, root, wire.Tree{Entries: 5, Depth: 9}, nil), "a+ a/b! a/b+ link+ x+ y+")
	is.Equal(listed(t, root, wire.Tree{Entries: 0, Depth: 9}, nil), ".!")
}
