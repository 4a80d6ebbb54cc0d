package hostdir_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/hostdir"
)

// hostile is a folder as a program inside may leave it: with pipes and sockets
// that block, and links that lead out.
func hostile(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	secret := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(root, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	err = errors.Join(
		os.WriteFile(filepath.Join(secret, "secret"), []byte("s"), 0o600),
		os.MkdirAll(filepath.Join(root, "a/b"), 0o755),
		os.WriteFile(filepath.Join(root, "a/b/file"), []byte("12345"), 0o640),
		os.WriteFile(filepath.Join(root, "setuid"), nil, 0o755),
		os.Chmod(filepath.Join(root, "setuid"), 0o755|os.ModeSetuid|os.ModeSticky),
		syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644),
		os.Symlink(secret, filepath.Join(root, "out")),
		os.Symlink("..", filepath.Join(root, "a/up")),
		os.Symlink("a", filepath.Join(root, "inside")),
	)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestReadIsWhatLstatSees(t *testing.T) {
	is := is.New(t)
	root := hostile(t)
	for _, dir := range []string{".", "a", "a/b"} {
		list, err := hostdir.Read(root, dir)
		is.NoErr(err)
		want, err := os.ReadDir(filepath.Join(root, dir)) // sorted
		is.NoErr(err)
		is.Equal(len(list), len(want))
		for i, d := range list {
			got, err := d.Info()
			is.NoErr(err)
			info, err := want[i].Info()
			is.NoErr(err)
			is.Equal(fs.FormatFileInfo(got), fs.FormatFileInfo(info))
			is.Equal(d.Type(), info.Mode().Type())
			is.True(got.ModTime().Equal(info.ModTime()))
			ctime := time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
			is.True(got.(interface{ ChangeTime() time.Time }).ChangeTime().Equal(ctime))
		}
	}
}

func TestReadInParts(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	for i := range 10 {
		is.NoErr(os.WriteFile(filepath.Join(root, strconv.Itoa(i)), nil, 0o644))
	}
	d, err := hostdir.Open(root, ".")
	is.NoErr(err)
	info, err := d.Stat()
	is.NoErr(err)
	is.True(info.IsDir())
	_, err = d.Read(nil)
	is.True(errors.Is(err, syscall.EISDIR))
	seen := map[string]bool{}
	for _, want := range []int{4, 4, 2} {
		list, err := d.ReadDir(4)
		is.NoErr(err)
		is.Equal(len(list), want)
		for _, e := range list {
			seen[e.Name()] = true
		}
	}
	is.Equal(len(seen), 10)
	_, err = d.ReadDir(4)
	is.Equal(err, io.EOF)
	is.NoErr(d.Close())
	_, err = d.ReadDir(4)
	is.True(err != nil)
}

func TestReadFollowsNoLink(t *testing.T) {
	root := hostile(t)
	for _, name := range []string{"out", "inside", "inside/b", "a/up", "a/up/a"} {
		if list, err := hostdir.Read(root, name); !errors.Is(err, hostdir.ErrLink) || list != nil {
			t.Errorf("%s: %v %v", name, list, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	root := hostile(t)
	for name, want := range map[string]error{
		"":          fs.ErrInvalid,
		"..":        fs.ErrInvalid,
		"a/../..":   fs.ErrInvalid,
		"/":         fs.ErrInvalid,
		"/etc":      fs.ErrInvalid,
		"a\x00b":    fs.ErrInvalid,
		"none":      fs.ErrNotExist,
		"none/b":    fs.ErrNotExist,
		"pipe":      syscall.ENOTDIR,
		"socket":    syscall.ENOTDIR,
		"setuid":    syscall.ENOTDIR,
		"a/b/file/": fs.ErrInvalid,
		"a/b/file":  syscall.ENOTDIR,
	} {
		list, err := hostdir.Read(root, name)
		if _, ok := errors.AsType[*fs.PathError](err); !ok || !errors.Is(err, want) || list != nil {
			t.Errorf("%q: %v %v", name, list, err)
		}
	}
}

// A directory that a program swaps for a link meanwhile is not left by it.
func TestReadWhileDirectoriesBecomeLinks(t *testing.T) {
	root := hostile(t)
	dir, link := filepath.Join(root, "a/b"), filepath.Join(root, "out")
	aside := filepath.Join(root, "aside")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				os.Rename(dir, aside)
				os.Rename(link, dir)
				os.Rename(dir, link)
				os.Rename(aside, dir)
			}
		}
	}()
	for range 2000 {
		list, _ := hostdir.Read(root, "a/b")
		for _, d := range list {
			if d.Name() == "secret" {
				t.Error("it followed a link out")
			}
		}
	}
	close(stop)
	<-done
}

func TestReadOpensNoDescriptorForGood(t *testing.T) {
	is := is.New(t)
	root := hostile(t)
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		is.NoErr(err)
		return len(list)
	}
	before := open()
	for _, name := range []string{".", "a/b", "out", "inside/b", "none", "pipe", "a/b/file"} {
		hostdir.Read(root, name)
	}
	is.Equal(open(), before)
}

func BenchmarkRead1000(b *testing.B) {
	root := b.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(root, strconv.Itoa(i)), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if list, err := hostdir.Read(root, "."); err != nil || len(list) != 1000 {
			b.Fatal(len(list), err)
		}
	}
}
