package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// treeCases are about directories, for drivers with FileSystem.
var treeCases = cases{
	{"Mkdir", mkdir},
	{"Remove", remove},
	{"RemoveAll", removeAll},
	{"ReadDir", readDir},
	{"CopyFS", copyFS},
	{"CopyFS of what is no file", copyOdd},
	{"names that lead out of a tree", treeLeadOut},
	{"the workdir stays", workdirStays},
	{"context that has ended under a tree", endedTree},
}

func mkdir(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	is.NoErr(sb.Mkdir(ctx, "mkdir/a/b", 0o777))
	is.Equal(stat(t, sb, "mkdir/a/b").Mode(), fs.ModeDir|0o755) // less the usual mask
	is.NoErr(sb.Mkdir(ctx, "mkdir/private", 0o700))
	is.Equal(stat(t, sb, "mkdir/private").Mode(), fs.ModeDir|0o700)
	write(t, sb, "mkdir/a/b/file", "x", 0o644)
	is.NoErr(sb.Mkdir(ctx, "mkdir/a/b", 0o700)) // it exists
	is.Equal(stat(t, sb, "mkdir/a/b").Mode(), fs.ModeDir|0o755)
	is.Equal(read(t, sb, "mkdir/a/b/file"), "x") // and is as it was
	is.True(sb.Mkdir(ctx, "mkdir/a/b/file", 0o755) != nil)
	is.True(sb.Mkdir(ctx, "mkdir/a/b/file/c", 0o755) != nil)
	is.NoErr(sb.Mkdir(ctx, "", 0o755))
	is.NoErr(sb.Mkdir(ctx, ".", 0o755))
}

func remove(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	write(t, sb, "remove/dir/file", "x", 0o644)
	is.True(sb.Remove(ctx, "remove/dir") != nil) // not empty
	is.Equal(read(t, sb, "remove/dir/file"), "x")
	is.NoErr(sb.Remove(ctx, "remove/dir/file"))
	is.Equal(list(t, sb, "remove/dir"), []string{})
	is.NoErr(sb.Remove(ctx, "remove/dir"))
	is.Equal(list(t, sb, "remove"), []string{})
	is.True(errors.Is(sb.Remove(ctx, "remove/dir"), fs.ErrNotExist))
	is.True(errors.Is(sb.Remove(ctx, "remove/none/file"), fs.ErrNotExist))
}

func removeAll(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	write(t, sb, "remove-all/tree/a/b", "x", 0o644)
	write(t, sb, "remove-all/tree/c", "x", 0o444)
	write(t, sb, "remove-all/file", "kept", 0o644)
	outputOf(t, sb, "ln", "-s", "../file", "remove-all/tree/link")
	is.NoErr(sb.RemoveAll(ctx, "remove-all/tree"))
	is.Equal(list(t, sb, "remove-all"), []string{"file"})
	is.Equal(read(t, sb, "remove-all/file"), "kept") // a link is not followed
	is.NoErr(sb.RemoveAll(ctx, "remove-all/tree"))
	is.NoErr(sb.RemoveAll(ctx, "remove-all/none/such"))
	is.NoErr(sb.RemoveAll(ctx, "remove-all/file"))
	is.Equal(list(t, sb, "remove-all"), []string{})
}

func readDir(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "read-dir/b", "12", 0o600)
	write(t, sb, "read-dir/a/x", "", 0o644)
	write(t, sb, "read-dir/B", "", 0o644)
	outputOf(t, sb, "ln", "-s", "a", "read-dir/c")
	entries, err := fs.ReadDir(sb.FS(bounded(t)), "read-dir")
	is.NoErr(err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name()+" "+e.Type().String())
	}
	is.Equal(got, []string{"B ----------", "a d---------", "b ----------", "c L---------"}) // sorted, and a link is one
	info, err := entries[2].Info()
	is.NoErr(err)
	is.Equal(info.Size(), int64(2))
	is.Equal(info.Mode(), fs.FileMode(0o600))
	write(t, sb, "read-dir/d/x", "", 0o644)
	is.NoErr(sb.Remove(bounded(t), "read-dir/d/x"))
	is.Equal(list(t, sb, "read-dir/d"), []string{}) // empty
}

func copyFS(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	src := fstest.MapFS{
		"main.py":         {Data: []byte("print()"), Mode: 0o644},
		"bin/run":         {Data: []byte("#!/bin/sh\necho ran\n"), Mode: 0o755},
		"deep/er/private": {Data: []byte{0, 1, 2}, Mode: 0o600},
		"empty":           {Mode: fs.ModeDir | 0o755},
	}
	write(t, sb, "copy-fs/main.py", "old", 0o644)
	write(t, sb, "copy-fs/other", "other", 0o644)
	is.NoErr(sb.CopyFS(ctx, "copy-fs", src))
	is.Equal(list(t, sb, "copy-fs"), []string{"bin", "deep", "empty", "main.py", "other"})
	is.Equal(read(t, sb, "copy-fs/main.py"), "print()")
	is.Equal(read(t, sb, "copy-fs/deep/er/private"), "\x00\x01\x02")
	is.Equal(stat(t, sb, "copy-fs/deep/er/private").Mode(), fs.FileMode(0o600))
	is.True(stat(t, sb, "copy-fs/empty").IsDir())
	is.Equal(read(t, sb, "copy-fs/other"), "other") // what else is there stays
	is.Equal(outputOf(t, sb, "copy-fs/bin/run"), "ran\n")
}

func copyOdd(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	src := fstest.MapFS{"pipe": {Mode: fs.ModeNamedPipe | 0o644}}
	is.True(errors.Is(sb.CopyFS(bounded(t), "copy-odd", src), sandbox.ErrInvalid))
	refusesName(t, sb.CopyFS(bounded(t), "../out", fstest.MapFS{"a": {}}), "../out")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.True(errors.Is(sb.CopyFS(ctx, "copy-odd", fstest.MapFS{"a": {}}), context.Canceled))
}

func treeLeadOut(t *testing.T, sb *sandbox.Sandbox) {
	ctx := bounded(t)
	for _, name := range outside(t, sb) {
		refusesName(t, sb.Mkdir(ctx, name, 0o755), name)
		refusesName(t, sb.Remove(ctx, name), name)
		refusesName(t, sb.RemoveAll(ctx, name), name)
	}
}

func workdirStays(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "workdir-stays/file", "x", 0o644)
	for _, name := range []string{"", ".", "workdir-stays/.."} {
		refusesName(t, sb.Remove(bounded(t), name), name)
		refusesName(t, sb.RemoveAll(bounded(t), name), name)
	}
	is.Equal(read(t, sb, "workdir-stays/file"), "x")
}

func endedTree(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "ended-tree/file", "x", 0o644)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.True(errors.Is(sb.Mkdir(ctx, "ended-tree/dir", 0o755), context.Canceled))
	is.True(errors.Is(sb.Remove(ctx, "ended-tree/file"), context.Canceled))
	is.True(errors.Is(sb.RemoveAll(ctx, "ended-tree"), context.Canceled))
	is.Equal(list(t, sb, "ended-tree"), []string{"file"})
}

// noFileSystem is for drivers that can only read and write.
func noFileSystem(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	write(t, sb, "no-file-system/file", "x", 0o644)
	is.True(errors.Is(sb.Mkdir(ctx, "no-file-system/dir", 0o755), errors.ErrUnsupported))
	is.True(errors.Is(sb.Remove(ctx, "no-file-system/file"), errors.ErrUnsupported))
	is.True(errors.Is(sb.RemoveAll(ctx, "no-file-system"), errors.ErrUnsupported))
	_, links := sb.FS(ctx).(fs.ReadLinkFS)
	is.True(!links)                                                    // package fs then does without
	is.Equal(strings.Join(list(t, sb, "no-file-system"), " "), "file") // nothing was done
}
