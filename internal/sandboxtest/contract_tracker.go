package sandboxtest

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// trackerCases are about whole trees, for every driver: one that is no
// TreeLister is asked for one directory after the other.
var trackerCases = cases{
	{"Tree", wholeTree},
	{"Tree within limits", treeLimits},
	{"Tree of what is not there", noTree},
	{"Track", track},
	{"Track what programs do", trackPrograms},
}

// paths are those of a Tree's entries, between blanks.
func paths(t *sandbox.Tree) string {
	var list []string
	for i := range t.Entries {
		list = append(list, t.Entries[i].Path)
	}
	return strings.Join(list, " ")
}

// changed are the paths that have an Info.
func changed(t *sandbox.Tree) string {
	var list []string
	for i := range t.Entries {
		if t.Entries[i].Info != nil {
			list = append(list, t.Entries[i].Path)
		}
	}
	return strings.Join(list, " ")
}

func wholeTree(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	write(t, sb, "whole/b/deep/file", "12345", 0o600)
	write(t, sb, "whole/a", "x", 0o644)
	write(t, sb, "whole/.hidden/in", "x", 0o644)
	write(t, sb, "whole/.shown/in", "x", 0o644)
	write(t, sb, "whole/cache/in", "x", 0o644)
	tree, err := sb.Tree(ctx, sandbox.TreeOptions{Dir: "whole"})
	is.NoErr(err)
	is.Equal(paths(tree), ".hidden .hidden/in .shown .shown/in a b b/deep b/deep/file cache cache/in")
	is.Equal(changed(tree), paths(tree)) // all is told of all
	is.Equal(len(tree.Omitted), 0)
	file := tree.Find("b/deep/file")
	is.Equal(file.Info.Size(), int64(5))
	is.Equal(file.Info.Mode(), fs.FileMode(0o600))
	is.Equal(file.Info.Name(), "file")
	is.Equal(tree.Find("b").Type, fs.ModeDir)
	is.Equal(tree.Find("c"), nil)

	tree, err = sb.Tree(ctx, sandbox.TreeOptions{Dir: "whole", SkipHidden: true, Skip: []string{"cache"}, Except: []string{".shown"}})
	is.NoErr(err)
	is.Equal(paths(tree), ".hidden .shown .shown/in a b b/deep b/deep/file cache")
}

func treeLimits(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	for _, name := range []string{"1/2/3/deep", "1/2/file", "a", "b"} {
		write(t, sb, "limits/"+name, "x", 0o644)
	}
	tree, err := sb.Tree(ctx, sandbox.TreeOptions{Dir: "limits", Depth: 2})
	is.NoErr(err)
	is.Equal(paths(tree), "1 1/2 1/2/3 1/2/file a b")
	is.Equal(tree.Omitted, []sandbox.Omission{{Path: "1/2/3", Why: sandbox.OmittedDepth}})
	tree, err = sb.Tree(ctx, sandbox.TreeOptions{Dir: "limits", Entries: 4})
	is.NoErr(err)
	is.Equal(paths(tree), "1 1/2 a b") // what is on top comes first
	is.Equal(tree.Omitted, []sandbox.Omission{{Path: "1/2", Why: sandbox.OmittedEntries}})
	tree, err = sb.Tree(ctx, sandbox.TreeOptions{Dir: "limits", Entries: 2})
	is.NoErr(err)
	is.Equal(len(tree.Entries), 2)
	is.Equal(tree.Omitted, []sandbox.Omission{{Path: ".", Why: sandbox.OmittedEntries}})
	for _, o := range []sandbox.TreeOptions{{Entries: -1}, {Depth: -1}} {
		_, err = sb.Tree(ctx, o)
		is.True(errors.Is(err, sandbox.ErrInvalid))
		_, err = sb.Track(ctx, o)
		is.True(errors.Is(err, sandbox.ErrInvalid))
	}
}

func noTree(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	write(t, sb, "no-tree/file", "x", 0o644)
	for _, dir := range []string{"no-tree/none", "no-tree/file", "..", "/etc"} {
		_, err := sb.Tree(ctx, sandbox.TreeOptions{Dir: dir})
		is.True(err != nil)
		_, err = sb.Track(ctx, sandbox.TreeOptions{Dir: dir})
		is.True(err != nil)
	}
}

func track(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	for _, name := range []string{"same", "rewritten", "d/same", "d/rewritten", "moved/in"} {
		write(t, sb, "track/"+name, "x", 0o644)
	}
	tr, err := sb.Track(ctx, sandbox.TreeOptions{Dir: "track"})
	is.NoErr(err)
	write(t, sb, "track/rewritten", "other", 0o644)
	write(t, sb, "track/d/rewritten", "other", 0o644)
	write(t, sb, "track/new/in/file", "x", 0o644)
	tree, err := tr.Tree()
	is.NoErr(err)
	is.NoErr(tr.Close())
	is.Equal(paths(tree), "d d/rewritten d/same moved moved/in new new/in new/in/file rewritten same")
	got := strings.Fields(changed(tree))
	for _, want := range []string{"d/rewritten", "new", "new/in", "new/in/file", "rewritten"} {
		is.True(slices.Contains(got, want))
	}
	for _, not := range []string{"d/same", "moved/in", "same"} {
		is.True(!slices.Contains(got, not))
	}
	is.Equal(tree.Find("rewritten").Info.Size(), int64(5))
	is.True(tree.Find("same").Type.IsRegular())
}

func trackPrograms(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	write(t, sb, "programs/rewritten", "x", 0o644)
	write(t, sb, "programs/same", "x", 0o644)
	tr, err := sb.Track(ctx, sandbox.TreeOptions{Dir: "programs"})
	is.NoErr(err)
	defer tr.Close()
	outputOf(t, sb, "sh", "-c", "echo longer > programs/rewritten; echo z > programs/made; cat programs/same")
	tree, err := tr.Tree()
	is.NoErr(err)
	is.Equal(changed(tree), "made rewritten")
}
