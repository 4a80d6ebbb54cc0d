package client_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// tree serves one listing of a tree.
func tree(t *testing.T, entries ...wire.TreeEntry) *client.Client {
	return serve(t, func(g *guest) {
		r := g.request()
		g.send(wire.KindOK, "")
		if r.Tree.Track {
			g.request()
			g.send(wire.KindOK, "")
		}
		var b []byte
		for i := range entries {
			b = wire.AppendTreeEntry(b, &entries[i])
		}
		g.send(wire.KindData, string(b))
		g.send(wire.KindEnd, "")
	})
}

func entry(name string, changed bool) wire.TreeEntry {
	return wire.TreeEntry{Stat: wire.Stat{Name: name, Size: 3, Mode: syscall.S_IFREG | 0o640, ModTime: regular.ModTime}, Changed: changed}
}

func TestTree(t *testing.T) {
	is := is.New(t)
	spec := wire.Tree{Entries: 10}
	c := tree(t, entry("a/b", true), entry("a/\xff", false), wire.TreeEntry{Stat: wire.Stat{Name: "."}, Omitted: wire.OmittedEntries})
	var got []client.TreeEntry
	add := func(e client.TreeEntry) error {
		got = append(got, e)
		return nil
	}
	tr, err := c.Track(within(t, patience), "/d", spec)
	is.NoErr(err)
	is.NoErr(tr.Tree(add))
	is.NoErr(tr.Close())
	is.Equal(len(got), 3)
	is.Equal(got[0].Path, "a/b")
	is.Equal(got[0].Info.Name(), "b")
	is.Equal(got[0].Info.Mode(), fs.FileMode(0o640))
	is.Equal(got[1].Path, "a/\xff")
	is.Equal(got[1].Info, nil)
	is.True(got[1].Type.IsRegular())
	is.Equal(got[2].Omitted, wire.OmittedEntries)
	got = nil
	is.NoErr(c.Tree(within(t, patience), "/d", spec, add))
	is.Equal(len(got), 3)
}

func TestTreeRefuses(t *testing.T) {
	take := func(client.TreeEntry) error { return nil }
	for _, name := range []string{"", ".", "..", "a/../b", "/a", "a/", "a//b", "../x", "a\x00b", strings.Repeat("n", 256), "a/" + strings.Repeat("n", 256)} {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			is := is.New(t)
			err := tree(t, entry("good", true), entry(name, true)).Tree(within(t, patience), "/d", wire.Tree{Entries: 10}, take)
			is.True(errors.Is(err, fs.ErrInvalid))
		})
	}
	is := is.New(t)
	many := make([]wire.TreeEntry, 30)
	for i := range many {
		many[i] = entry("n", false)
	}
	is.True(tree(t, many...).Tree(within(t, patience), "/d", wire.Tree{Entries: 10}, take) != nil) // more than was asked for
	stop := errors.New("stop")
	err := tree(t, entry("a", true)).Tree(within(t, patience), "/d", wire.Tree{Entries: 10}, func(client.TreeEntry) error { return stop })
	is.True(errors.Is(err, stop))
}

func TestBrokenTrees(t *testing.T) {
	for name, script := range map[string]func(g *guest){
		"cut":         func(*guest) {},
		"other frame": func(g *guest) { g.send(wire.KindStdout, "x") },
		"malformed":   func(g *guest) { g.send(wire.KindData, "\x01\xff") },
		"fails":       func(g *guest) { g.fail(wire.Error{Errno: syscall.EACCES}) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c := serve(t, func(g *guest) {
				g.request()
				g.send(wire.KindOK, "")
				script(g)
			})
			is.True(c.Tree(within(t, patience), "/d", wire.Tree{Entries: 10}, func(client.TreeEntry) error { return nil }) != nil)
		})
	}
}
