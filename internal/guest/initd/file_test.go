package initd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// userServer is a server for the files of the sandbox's user, and the client
// that the host has for it. Only root can become another user.
func userServer(t *testing.T) *client.Client {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	s := &server{user: user{UID, GID}, fuse: newFuse()}
	return &client.Client{Dial: func(context.Context) (net.Conn, error) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		go s.serve(newConn(fds[0]))
		f := os.NewFile(uintptr(fds[1]), "host")
		defer f.Close()
		return net.FileConn(f)
	}}
}

// owned makes the folder of the sandbox's user.
func owned(t *testing.T, modes map[string]os.FileMode) string {
	t.Helper()
	dir := tree(t, modes)
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // the way to it
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, UID, GID))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestFilesAsUser: the user's permissions decide, for reading and writing.
func TestFilesAsUser(t *testing.T) {
	is := is.New(t)
	c := userServer(t)
	dir := owned(t, map[string]os.FileMode{"own": 0o600, "roots": 0o600, "public": 0o644, "closed/inside": 0o644})
	for _, name := range []string{"roots", "public", "closed"} {
		is.NoErr(os.Chown(dir+"/"+name, 0, 0))
	}
	is.NoErr(os.Chmod(dir+"/closed", 0o700))
	put := func(name string) error {
		return c.Write(ctx(t), dir+"/"+name, strings.NewReader("text"), 0o644)
	}
	get := func(name string) error {
		f, err := c.Open(ctx(t), dir+"/"+name, nothing)
		if err == nil {
			f.Close()
		}
		return err
	}
	stat := func(name string) error {
		_, err := c.Stat(ctx(t), dir+"/"+name)
		return err
	}
	list := func(name string) error {
		_, err := c.ReadDir(ctx(t), dir+"/"+name)
		return err
	}
	for what, err := range map[string]error{
		"write own": put("own"), "write new": put("made/new"), "read public": get("public"), "stat closed": stat("closed"),
		"mkdir": c.Mkdir(ctx(t), dir+"/dir", 0o700, false), "list": list("."), "read own": get("own"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"read root's": get("roots"), "write root's": put("roots"), "write public": put("public"),
		"write closed": put("closed/new"), "replace closed": put("closed/inside"), "stat in closed": stat("closed/inside"),
		"list closed": list("closed"), "mkdir in closed": c.Mkdir(ctx(t), dir+"/closed/dir", 0o755, true),
		"remove in closed": c.Remove(ctx(t), dir+"/closed/inside", false), "remove closed": c.Remove(ctx(t), dir+"/closed", true),
	} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", what, err)
		}
	}
	is.Equal(contents(t, dir, "closed/inside"), "#!")
	for _, name := range []string{"own", "made", "made/new", "dir"} {
		info, err := os.Stat(dir + "/" + name)
		is.NoErr(err)
		st := info.Sys().(*syscall.Stat_t)
		is.Equal([2]uint32{st.Uid, st.Gid}, [2]uint32{UID, GID}) // what is made is the user's
	}
	is.Equal(os.Geteuid(), 0) // and this process is still root's
	is.Equal(os.Getegid(), 0)
}

func TestReadDir(t *testing.T) {
	is := is.New(t)
	c := userServer(t)
	modes := map[string]os.FileMode{"dir/file": 0o600}
	for i := range 700 { // more than one part
		modes[fmt.Sprintf("%s%d", strings.Repeat("n", i%200), i)] = 0o644
	}
	dir := owned(t, modes)
	link(t, "nowhere", dir+"/link")
	entries, err := c.ReadDir(ctx(t), dir)
	is.NoErr(err)
	want, err := os.ReadDir(dir)
	is.NoErr(err)
	is.Equal(len(entries), len(want))
	for i, e := range entries {
		is.Equal(e.Name(), want[i].Name())
		is.Equal(e.Type(), want[i].Type()) // a link is a link
		got, err := e.Info()
		is.NoErr(err)
		info, err := want[i].Info()
		is.NoErr(err)
		is.Equal(got.Mode(), info.Mode())
		is.Equal(got.Size(), info.Size())
		is.True(got.ModTime().Equal(info.ModTime()))
	}
	_, err = c.ReadDir(ctx(t), dir+"/link")
	is.True(errors.Is(err, fs.ErrNotExist))
	_, err = c.ReadDir(ctx(t), dir+"/dir/file")
	is.True(errors.Is(err, syscall.ENOTDIR))
}

func TestReadFile(t *testing.T) {
	is := is.New(t)
	c := userServer(t)
	dir := owned(t, nil)
	for _, size := range []int{0, 1, chunk, wire.MaxData, 3*wire.MaxData + 1} {
		want := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		is.NoErr(os.WriteFile(dir+"/f", []byte(want), 0o644))
		f, err := c.Open(ctx(t), dir+"/f", nothing)
		is.NoErr(err)
		got, err := io.ReadAll(f)
		is.NoErr(err)
		is.True(string(got) == want)
		info, err := f.Stat()
		is.NoErr(err)
		is.Equal(info.Size(), int64(size))
		is.Equal(info.Name(), "f")
		is.NoErr(f.Close())
	}
	link(t, "f", dir+"/link")
	target, err := c.Readlink(ctx(t), dir+"/link")
	is.NoErr(err)
	is.Equal(target, "f")
	info, err := c.Lstat(ctx(t), dir+"/link")
	is.NoErr(err)
	is.Equal(info.Mode().Type(), fs.ModeSymlink)
	info, err = c.Stat(ctx(t), dir+"/link")
	is.NoErr(err)
	is.True(info.Mode().IsRegular())
}

// TestOpenOther: what is no file does not hold a thread up.
func TestOpenOther(t *testing.T) {
	is := is.New(t)
	c := userServer(t)
	dir := owned(t, nil)
	is.NoErr(syscall.Mkfifo(dir+"/pipe", 0o666))
	is.NoErr(os.Chmod(dir+"/pipe", 0o666))
	for _, path := range []string{dir + "/pipe", "/dev/zero", "/dev/tty", dir + "/missing"} {
		_, err := c.Open(ctx(t), path, nothing)
		is.True(err != nil)
		is.True(!errors.Is(err, context.DeadlineExceeded))
	}
	f, err := c.Open(ctx(t), dir, nothing)
	is.NoErr(err)
	defer f.Close()
	_, isDir := f.(fs.ReadDirFile)
	is.True(isDir)
}

func TestMkdirAndRemove(t *testing.T) {
	is := is.New(t)
	c := userServer(t)
	dir := owned(t, map[string]os.FileMode{"file": 0o644, "full/file": 0o644})
	is.True(errors.Is(c.Mkdir(ctx(t), dir+"/a/b", 0o755, false), fs.ErrNotExist))
	is.NoErr(c.Mkdir(ctx(t), dir+"/a/b", 0o750, true))
	is.NoErr(c.Mkdir(ctx(t), dir+"/a/b", 0o750, true)) // with parents, one that exists is no error
	is.True(errors.Is(c.Mkdir(ctx(t), dir+"/a", 0o755, false), fs.ErrExist))
	is.True(errors.Is(c.Mkdir(ctx(t), dir+"/file", 0o755, true), syscall.ENOTDIR))
	is.True(errors.Is(c.Remove(ctx(t), dir+"/full", false), syscall.ENOTEMPTY))
	is.True(errors.Is(c.Remove(ctx(t), dir+"/missing", false), fs.ErrNotExist))
	is.NoErr(c.Remove(ctx(t), dir+"/missing", true))
	is.NoErr(c.Remove(ctx(t), dir+"/full", true))
	is.NoErr(c.Remove(ctx(t), dir+"/file", false))
	is.Equal(names(t, dir), []string{"a"})
}

// TestSendFile from an offset: to the end, and nothing beyond it.
func TestSendFile(t *testing.T) {
	path := tree(t, map[string]os.FileMode{"f": 0o644}) + "/f" // holds "#!"
	for offset, want := range map[int64]string{0: "#!", 1: "!", 2: "", 1 << 40: "", -1: "#!"} {
		is := is.New(t)
		f, err := os.Open(path)
		is.NoErr(err)
		c, h := connected(t)
		is.NoErr(sendFile(c, f, offset, 2))
		is.NoErr(c.flush())
		if want != "" {
			is.Equal(h.next(wire.KindData), want)
		}
		h.next(wire.KindEnd)
		is.NoErr(f.Close())
		is.NoErr(c.Close())
	}
}

func TestSendFileFromFarBelow(t *testing.T) {
	is := is.New(t)
	f, err := os.Open(os.DevNull)
	is.NoErr(err)
	defer f.Close()
	c, _ := connected(t)
	defer c.Close()
	defer func() { is.Equal(recover(), nil) }()
	sendFile(c, f, -1<<63+1, 0)
}

func TestWatch(t *testing.T) {
	is := is.New(t)
	s := &server{fuse: newFuse()}
	h := serving(t, s)
	watch := wire.Request{Op: wire.OpWatch, Deadline: time.Now().Add(time.Hour), Orphan: time.Hour}
	h.send(wire.KindRequest, watch.Append(nil))
	h.next(wire.KindOK)
	h.send(wire.KindRequest, watch.Append(nil)) // moves the deadline
	h.next(wire.KindOK)
	lit := func() bool {
		s.fuse.mu.Lock()
		defer s.fuse.mu.Unlock()
		return s.fuse.orphan != nil
	}
	is.True(!lit())
	h.Close()
	waitFor(t, lit) // its Runtime is gone
}

// nothing is what these tests do when a file is closed.
func nothing() {}
