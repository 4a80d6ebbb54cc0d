package initd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	dir := tree(t, map[string]os.FileMode{"file": 0o644, "sub/file": 0o644})
	at := func(name string) string { return dir + "/" + name }
	link(t, "file", at("relative"))
	link(t, at("file"), at("absolute"))
	link(t, "relative", at("twice"))
	link(t, "sub", at("folder"))
	link(t, "../file", at("sub/up"))
	link(t, "missing", at("dangling"))
	link(t, "loop", at("loop"))
	link(t, "pong", at("ping"))
	link(t, "ping", at("pong"))
	for name, want := range map[string]string{
		"file":        at("file"),
		"missing":     at("missing"),
		"relative":    at("file"),
		"absolute":    at("file"),
		"twice":       at("file"),
		"dangling":    at("missing"),
		"sub/up":      at("sub/../file"),
		"folder":      at("sub"),
		"folder/up":   at("folder/../file"), // as the kernel has it: beside sub, not beside folder
		"folder/file": at("folder/file"),
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			got, err := resolve(at(name))
			is.NoErr(err)
			is.Equal(got, want)
			real, err := filepath.EvalSymlinks(at(name))
			if err != nil {
				return // it does not exist yet
			}
			same, err := filepath.EvalSymlinks(got)
			is.NoErr(err)
			is.Equal(same, real) // the file that the kernel finds
		})
	}
	for _, name := range []string{"loop", "ping"} {
		is := is.New(t)
		_, err := resolve(at(name))
		is.True(errors.Is(err, syscall.ELOOP))
	}
}

// chain makes a chain of n links to a file.
func chain(t *testing.T, n int) (first string) {
	dir := tree(t, map[string]os.FileMode{"0": 0o644})
	for i := range n {
		link(t, fmt.Sprint(i), fmt.Sprintf("%s/%d", dir, i+1))
	}
	return fmt.Sprintf("%s/%d", dir, n)
}

func TestLongChains(t *testing.T) {
	is := is.New(t)
	first := chain(t, 39)
	end, err := resolve(first)
	is.NoErr(err)
	is.Equal(end, folder(first)+"0")
	_, err = resolve(chain(t, 41))
	is.True(errors.Is(err, syscall.ELOOP))
}

func TestLongestChain(t *testing.T) {
	is := is.New(t)
	first := chain(t, 40)
	_, err := os.Stat(first)
	is.NoErr(err)
	_, err = resolve(first)
	is.NoErr(err)
}

// put writes a file as the host would. Text "" stands for a host that hangs up
// in the middle.
func put(t *testing.T, path string, perm uint32, text string) error {
	t.Helper()
	up, err := newUpload(path, perm)
	if err != nil {
		return err
	}
	c, h := connected(t)
	defer c.Close()
	h.send(wire.KindData, []byte("begin: "))
	if text != "" {
		h.send(wire.KindData, []byte(text))
		h.send(wire.KindEnd, nil)
	}
	h.Close()
	if err := up.receive(c); err != nil {
		if aborted := up.abort(); aborted != nil {
			t.Error(aborted)
		}
		return err
	}
	return up.commit()
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestUpload(t *testing.T) {
	is := is.New(t)
	dir := tree(t, map[string]os.FileMode{"old": 0o600})
	is.NoErr(put(t, dir+"/old", 0o644, "new content"))
	is.Equal(contents(t, dir, "old"), "begin: new content")
	is.Equal(modeOf(t, dir+"/old"), os.FileMode(0o600)) // an existing file keeps its mode
	is.NoErr(put(t, dir+"/new", 0o777, "text"))
	is.Equal(modeOf(t, dir+"/new"), os.FileMode(0o755)) // a new one has that asked for, less the mask
	is.NoErr(put(t, dir+"/a/b/c", 0o4640, "text"))      // parents are made
	is.Equal(modeOf(t, dir+"/a/b/c"), os.FileMode(0o640))
	is.Equal(modeOf(t, dir+"/a/b").Perm(), os.FileMode(0o755))
	is.NoErr(put(t, dir+"/"+strings.Repeat("n", 255), 0o644, "text")) // the longest name there is
	is.Equal(names(t, dir), []string{"a", "new", strings.Repeat("n", 255), "old"})
}

// TestUploadThroughLink: the link stays, the file that it points to is new.
func TestUploadThroughLink(t *testing.T) {
	is := is.New(t)
	dir := tree(t, map[string]os.FileMode{"sub/file": 0o640})
	link(t, "sub/file", dir+"/link")
	link(t, "sub/made", dir+"/dangling")
	is.NoErr(put(t, dir+"/link", 0o600, "text"))
	is.Equal(contents(t, dir, "sub/file"), "begin: text")
	is.NoErr(put(t, dir+"/dangling", 0o600, "more"))
	is.Equal(contents(t, dir, "sub/made"), "begin: more")
	is.True(modeOf(t, dir+"/link")&os.ModeSymlink != 0)
	is.True(modeOf(t, dir+"/dangling")&os.ModeSymlink != 0)
	is.Equal(names(t, dir+"/sub"), []string{"file", "made"})
}

// TestCutUpload: all of it or nothing.
func TestCutUpload(t *testing.T) {
	is := is.New(t)
	dir := tree(t, map[string]os.FileMode{"old": 0o644})
	is.True(put(t, dir+"/old", 0o644, "") != nil)
	is.True(put(t, dir+"/new", 0o644, "") != nil)
	is.Equal(contents(t, dir, "old"), "#!")
	is.Equal(names(t, dir), []string{"old"}) // nothing is left of either
}

// TestUploadGivenUp by the host, or by a host that breaks the protocol.
func TestUploadGivenUp(t *testing.T) {
	for kind, want := range map[wire.Kind]error{wire.KindKill: syscall.ECANCELED, wire.KindStdin: syscall.EPROTO, 200: syscall.EPROTO} {
		is := is.New(t)
		dir := t.TempDir()
		up, err := newUpload(dir+"/new", 0o644)
		is.NoErr(err)
		c, h := connected(t)
		defer c.Close()
		h.send(wire.KindData, []byte("begin"))
		h.send(kind, nil)
		is.Equal(up.receive(c), want)
		is.NoErr(up.abort())
		is.Equal(len(names(t, dir)), 0)
	}
}

func TestUploadRefused(t *testing.T) {
	dir := tree(t, map[string]os.FileMode{"dir": os.ModeDir | 0o755, "file": 0o644})
	if err := syscall.Mkfifo(dir+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	link(t, "loop", dir+"/loop")
	link(t, "dir", dir+"/link")
	for name, want := range map[string]error{
		"dir":                    syscall.EISDIR,
		"link":                   syscall.EISDIR,
		"pipe":                   errNotRegular,
		"loop":                   syscall.ELOOP,
		"file/below":             syscall.ENOTDIR,
		"\x00":                   syscall.EINVAL,
		strings.Repeat("n", 256): syscall.ENAMETOOLONG,
	} {
		is := is.New(t)
		err := put(t, dir+"/"+name, 0o644, "text")
		is.True(errors.Is(err, want))
	}
	is := is.New(t)
	is.Equal(names(t, dir), []string{"dir", "file", "link", "loop", "pipe"}) // nothing was made
}
