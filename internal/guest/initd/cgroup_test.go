package initd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

func TestPopulated(t *testing.T) {
	for events, want := range map[string]bool{
		"populated 1\nfrozen 0\n": true,
		"populated 0\nfrozen 0\n": false,
		"frozen 0\npopulated 1\n": true,
		"frozen 1\npopulated 0\n": false,
		"populated 0":             false,
		"populated 1":             true,
		"populated ":              false,
		"frozen 1\n":              false,
		"":                        false,
	} {
		if got := populated(events); got != want {
			t.Errorf("%q: %v", events, got)
		}
	}
}

// fakeGroups stands on a plain folder, where a group is one too.
func fakeGroups(t *testing.T) *groups {
	t.Helper()
	root := tree(t, map[string]os.FileMode{
		"init/cgroup.procs": 0o644, "cgroup.subtree_control": 0o644,
		"commands/cgroup.subtree_control": 0o644, "commands/memory.max": 0o644, "commands/cpu.max": 0o644, "commands/pids.max": 0o644,
	})
	g, err := newGroups(root)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func contents(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestNewGroups(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	top := filepath.Dir(g.root)
	is.True(strings.HasPrefix(contents(t, top, "init/cgroup.procs"), "1")) // the init itself has moved
	for _, dir := range []string{top, g.root} {
		is.Equal(contents(t, dir, "cgroup.subtree_control"), "+cpu +memory +pids")
	}
	_, err := newGroups(g.root + "/missing")
	is.True(err != nil)
}

// fakeGroup is a folder in the place of a command's cgroup.
func fakeGroup(t *testing.T, g *groups, name string) *group {
	t.Helper()
	path := g.root + "/" + name
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := openFD(path, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	return &group{path: path, dir: dir}
}

// TestCreateLeavesNothing when a group cannot be made: a plain folder has none
// of a cgroup's files.
func TestCreateLeavesNothing(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	before, files := names(t, g.root), openFiles(t)
	if c, err := g.create(); err == nil {
		g.release(c)
	}
	is.Equal(names(t, g.root), before)
	is.Equal(openFiles(t), files)
}

// TestGroupsAreReleased when they are empty, be that later.
func TestGroupsAreReleased(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	files := openFiles(t)
	first, second := fakeGroup(t, g, "first"), fakeGroup(t, g, "second")
	left := second.path + "/process" // what keeps a folder, as a process keeps a group
	is.NoErr(os.Mkdir(left, 0o755))
	g.release(first)
	is.True(!g.busy())
	g.release(second)
	is.True(g.busy())
	is.Equal(openFiles(t), files) // a group that is left holds no descriptor
	_, err := os.Stat(first.path)
	is.True(errors.Is(err, fs.ErrNotExist))
	g.sweep()
	is.True(g.busy()) // not yet empty
	is.NoErr(os.Remove(left))
	g.sweep()
	is.True(!g.busy())
	_, err = os.Stat(second.path)
	is.True(errors.Is(err, fs.ErrNotExist))
}

func TestSweepForgetsWhatIsGone(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	c := fakeGroup(t, g, "group")
	is.NoErr(os.Mkdir(c.path+"/process", 0o755))
	g.release(c)
	is.NoErr(os.RemoveAll(c.path))
	g.sweep()
	is.True(!g.busy())
}
