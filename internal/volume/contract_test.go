package volume_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/volume"
)

const size = 64 << 20

// both runs a test of what holds for volumes of either kind.
func both(t *testing.T, test func(t *testing.T, s *volume.Store, dir string)) {
	t.Run("mounted", func(t *testing.T) {
		s, dir := open(t)
		test(t, s, dir)
	})
	t.Run("plain", func(t *testing.T) {
		s, dir := openPlain(t)
		test(t, s, dir)
	})
}

func mount(t testing.TB, s *volume.Store, name string) string {
	t.Helper()
	dir, err := s.Mount(t.Context(), name, size, 1000, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func unmount(t testing.TB, s *volume.Store, name string) {
	t.Helper()
	stats, err := s.Unmount(t.Context(), name)
	if err != nil || stats.Lazy {
		t.Fatal(stats, err)
	}
}

func TestOutlives(t *testing.T) {
	both(t, func(t *testing.T, s *volume.Store, _ string) {
		is := is.New(t)
		dir := mount(t, s, "v")
		is.NoErr(os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600))
		is.Equal(mount(t, s, "v"), dir) // mounted already
		unmount(t, s, "v")
		unmount(t, s, "v")
		unmount(t, s, "unknown")
		is.Equal(mount(t, s, "v"), dir)
		b, err := os.ReadFile(filepath.Join(dir, "file"))
		is.NoErr(err)
		is.Equal(string(b), "content")
		is.NoErr(s.Remove(t.Context(), "v")) // also while it is mounted
		is.NoErr(s.Remove(t.Context(), "v"))
		_, err = os.Lstat(dir)
		is.True(errors.Is(err, fs.ErrNotExist))
		entries, err := os.ReadDir(mount(t, s, "v"))
		is.NoErr(err)
		is.Equal(len(entries), 0) // another, of the same name; and no lost+found
	})
}

func TestOwner(t *testing.T) {
	both(t, func(t *testing.T, s *volume.Store, _ string) {
		is := is.New(t)
		for _, id := range []int{1000, 1000, 0, 65534} {
			dir, err := s.Mount(t.Context(), "v", size, id, id+1)
			is.NoErr(err)
			info, err := os.Lstat(dir)
			is.NoErr(err)
			stat := info.Sys().(*syscall.Stat_t)
			is.Equal([]int{int(stat.Uid), int(stat.Gid)}, []int{id, id + 1})
			is.Equal(info.Mode(), fs.ModeDir|0o755)
			is.NoErr(os.Chmod(dir, 0o777)) // as its user may
		}
	})
}

func TestList(t *testing.T) {
	both(t, func(t *testing.T, s *volume.Store, dir string) {
		is := is.New(t)
		list, err := s.List()
		is.NoErr(err)
		is.Equal(len(list), 0)
		mount(t, s, "b")
		mount(t, s, "a")
		unmount(t, s, "a")
		long := time.Now().Add(-time.Hour)
		is.NoErr(os.Chtimes(filepath.Join(dir, "volume", "b"), long, long))
		list, err = s.List()
		is.NoErr(err)
		is.Equal(len(list), 2)
		is.Equal([]string{list[0].Name, list[1].Name}, []string{"a", "b"})
		is.True(time.Since(list[0].LastUsed) < time.Minute)
		is.Equal(list[1].LastUsed.Unix(), long.Unix())
		if strings.HasSuffix(t.Name(), "plain") {
			is.Equal(list[1].Size, int64(0))
			is.Equal(list[1].Used, int64(-1))
		} else {
			is.True(list[1].Mounted && !list[0].Mounted)
			is.Equal(list[0].Size, int64(size))
			is.True(list[0].Used > 0 && list[0].Used < 1<<20)
		}
		unmount(t, s, "b")
		if list, err = s.List(); !list[1].Mounted && list[1].Size > 0 {
			is.True(time.Since(list[1].LastUsed) < time.Minute)
		}
		is.NoErr(err)
	})
}

// TestHostileContent: what programs leave is removed and not followed.
func TestHostileContent(t *testing.T) {
	both(t, func(t *testing.T, s *volume.Store, _ string) {
		is := is.New(t)
		outside := filepath.Join(t.TempDir(), "outside")
		is.NoErr(os.WriteFile(outside, []byte("mine"), 0o600))
		dir := mount(t, s, "v")
		is.NoErr(os.Symlink(filepath.Dir(outside), filepath.Join(dir, "link")))
		is.NoErr(os.Symlink("/", filepath.Join(dir, "root")))
		is.NoErr(os.Symlink("data", filepath.Join(dir, "data")))
		is.NoErr(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		is.NoErr(unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK, 0))
		deep := dir
		for range 100 {
			deep = filepath.Join(deep, "d")
			is.NoErr(os.Mkdir(deep, 0))
		}
		unmount(t, s, "v")
		is.Equal(mount(t, s, "v"), dir)
		is.NoErr(s.Remove(t.Context(), "v"))
		b, err := os.ReadFile(outside)
		is.NoErr(err)
		is.Equal(string(b), "mine")
	})
}

// TestTwentyCycles: a tree that changes is the same after each mount.
func TestTwentyCycles(t *testing.T) {
	both(t, func(t *testing.T, s *volume.Store, _ string) {
		is := is.New(t)
		random := rand.New(rand.NewPCG(1, 2))
		want := ""
		for i := range 20 {
			dir := mount(t, s, "v")
			if i > 0 {
				is.Equal(hash(t, dir), want)
			}
			change(t, dir, random)
			want = hash(t, dir)
			unmount(t, s, "v")
		}
	})
}

// change writes, moves and removes files.
func change(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	is := is.New(t)
	for range 30 {
		path := filepath.Join(dir, fmt.Sprint("d", random.IntN(5)), fmt.Sprint("f", random.IntN(10)))
		is.NoErr(os.MkdirAll(filepath.Dir(path), 0o700))
		is.NoErr(os.RemoveAll(path))
		switch random.IntN(4) {
		case 0:
			is.NoErr(os.Symlink(fmt.Sprint("to", random.Int()), path))
		case 1, 2:
			is.NoErr(write(path, random.Int64N(300_000), false))
		}
	}
}

// hash is of all names, kinds and contents.
func hash(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %v\n", strings.TrimPrefix(path, dir), e.Type())
		var b []byte
		switch e.Type() {
		case 0:
			b, err = os.ReadFile(path)
		case fs.ModeSymlink:
			var to string
			to, err = os.Readlink(path)
			b = []byte(to)
		}
		fmt.Fprintf(sum, "%x\n", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func TestConcurrent(t *testing.T) {
	both(t, func(t *testing.T, s *volume.Store, _ string) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				name := []string{"same", "same", "same", "other", "a", "b", "c", "d"}[i]
				for range 6 {
					dir, err := s.Mount(t.Context(), name, size, 1000, 1000)
					if err != nil {
						t.Error(name, err)
						return
					}
					if i > 2 { // alone with it
						if err := os.WriteFile(filepath.Join(dir, "f"), []byte(name), 0o600); err != nil {
							t.Error(err)
						}
					}
					if _, err := s.List(); err != nil {
						t.Error(err)
					}
					if _, err := s.Unmount(t.Context(), name); err != nil {
						t.Error(name, err)
					}
				}
				if i%2 == 0 {
					if err := s.Remove(t.Context(), name); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestCancelled(t *testing.T) {
	both(t, func(t *testing.T, s *volume.Store, _ string) {
		is := is.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Mount(ctx, "v", size, 0, 0)
		is.True(errors.Is(err, context.Canceled))
		_, err = s.Unmount(ctx, "v")
		is.True(errors.Is(err, context.Canceled))
		is.True(errors.Is(s.Remove(ctx, "v"), context.Canceled))
	})
}

func TestTooSmall(t *testing.T) {
	both(t, func(t *testing.T, s *volume.Store, _ string) {
		for _, size := range []int64{-1, 0, 1, volume.MinSize - 1} {
			_, err := s.Mount(t.Context(), "v", size, 0, 0)
			if err == nil {
				t.Error(size)
			}
		}
	})
}

// TestKindStays: what a volume is, it stays.
func TestKindStays(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	mounted := mount(t, s, "mounted")
	unmount(t, s, "mounted")
	plain, err := volume.Open(dir)
	is.NoErr(err)
	plain.NotEnforced(errors.New("not today"))
	folder := mount(t, plain, "plain")
	is.NoErr(os.WriteFile(filepath.Join(folder, "f"), nil, 0o600))
	is.Equal(mount(t, plain, "mounted"), mounted)
	is.Equal(mount(t, s, "plain"), folder)
	_, err = os.Lstat(filepath.Join(folder, "f"))
	is.NoErr(err)
}
