package volume_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/internal/volume"
)

// TestFull: a volume holds what it is said to, says so, takes up no more of
// this machine's disk, and gives it back.
func TestFull(t *testing.T) {
	is := is.New(t)
	s, root := open(t)
	dir := mount(t, s, "v")
	image := filepath.Join(root, "volume", "v", "image")
	is.True(onDisk(t, image) < 1<<20) // an empty one takes up next to nothing
	var stat unix.Statfs_t
	is.NoErr(unix.Statfs(dir, &stat))
	is.True(stat.Blocks*uint64(stat.Bsize) <= size)
	is.True(stat.Bavail*uint64(stat.Bsize) > size*8/10)
	err := write(filepath.Join(dir, "big"), 2*size, true)
	is.True(errors.Is(err, unix.ENOSPC))
	info, err := os.Stat(filepath.Join(dir, "big"))
	is.NoErr(err)
	is.True(info.Size() > size*8/10)
	mount(t, s, "other") // is none the worse
	unmount(t, s, "v")
	is.True(onDisk(t, image) <= size+1<<20)
	is.NoErr(os.Remove(filepath.Join(mount(t, s, "v"), "big")))
	unmount(t, s, "v")
	is.True(onDisk(t, image) < 8<<20) // what is left is the journal
}

// TestMountOptions: nothing in a volume has a power of its own, and no other
// mount namespace gets it.
func TestMountOptions(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	mount(t, s, "v")
	found := 0
	for _, line := range mounts(dir) {
		if fields := strings.Fields(line); fields[4] == filepath.Join(dir, "mount", "v") {
			found++
			is.Equal(fields[5], "rw,nosuid,nodev,noatime")
			is.Equal(fields[6], "-") // neither shared nor a slave
		}
	}
	is.Equal(found, 1)
	b, err := os.ReadFile(strings.SplitN(loops(dir)[0], ":", 2)[0])
	is.NoErr(err)
	is.Equal(strings.TrimSpace(string(b)), filepath.Join(dir, "volume", "v", "image"))
	unmount(t, s, "v")
	is.Equal(len(mounts(dir)), 0)
	is.Equal(len(loops(dir)), 0)
}

// TestPathWithSpaces: as mountinfo writes them.
func TestPathWithSpaces(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	is.NoErr(s.Enforced())
	odd := filepath.Join(dir, "tmp", `a b\040	c`)
	s, err := volume.Open(odd)
	is.NoErr(err)
	at := mount(t, s, "v")
	is.Equal(mount(t, s, "v"), at)
	list, err := s.List()
	is.NoErr(err)
	is.True(list[0].Mounted)
	is.NoErr(s.Remove(t.Context(), "v"))
	is.NoErr(os.RemoveAll(odd))
}

// TestBusy: a volume that is in use is waited for, then unmounted lazily, and
// can be mounted again over the same device meanwhile.
func TestBusy(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	f, err := os.OpenFile(filepath.Join(mount(t, s, "v"), "f"), os.O_CREATE|os.O_RDWR, 0o600)
	is.NoErr(err)
	defer f.Close()
	_, err = f.WriteString("before")
	is.NoErr(err)
	stats, err := s.Unmount(t.Context(), "v")
	is.NoErr(err)
	is.True(stats.Lazy && stats.Unmount > time.Second)
	is.Equal(len(mounts(dir)), 0)
	is.Equal(len(loops(dir)), 1)
	again := filepath.Join(mount(t, s, "v"), "f")
	is.Equal(len(loops(dir)), 1) // two would ruin it
	_, err = f.WriteString(" and after")
	is.NoErr(err)
	b, err := os.ReadFile(again)
	is.NoErr(err)
	is.Equal(string(b), "before and after")
	is.NoErr(f.Close())
	unmount(t, s, "v")
	is.Equal(len(loops(dir)), 0)
}

// TestBrokenImage: one clear error, and the image is kept.
func TestBrokenImage(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	mount(t, s, "v")
	unmount(t, s, "v")
	image := filepath.Join(dir, "volume", "v", "image")
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	is.NoErr(err)
	_, err = f.WriteAt(make([]byte, 4096), 0) // where the superblock is
	is.NoErr(err)
	is.NoErr(f.Close())
	for range 2 {
		_, err = s.Mount(t.Context(), "v", size, 1000, 1000)
		is.True(err != nil)
		is.True(strings.HasPrefix(err.Error(), `volume "v": `+image+" cannot be mounted, and is kept: ext4: "))
		is.True(!strings.Contains(err.Error(), "\n"))
	}
	_, err = os.Stat(image)
	is.NoErr(err)
	is.Equal(len(loops(dir)), 0)
	_, err = s.Unmount(t.Context(), "v")
	is.NoErr(err)
	mount(t, s, "other")
}

// TestDiskFull: the disk under the images is full before they are.
func TestDiskFull(t *testing.T) {
	is := is.New(t)
	outer, _ := open(t)
	root := mount(t, outer, "disk")
	s, err := volume.Open(root)
	is.NoErr(err)
	t.Cleanup(func() { cleanUp(t, s, root) })
	dir, err := s.Mount(t.Context(), "v", 4*size, 1000, 1000)
	is.NoErr(err)
	is.NoErr(write(filepath.Join(dir, "before"), 8<<20, true))
	want := hash(t, dir)
	ballast := filepath.Join(root, "ballast")
	is.True(errors.Is(write(ballast, size, true), unix.ENOSPC))

	err = write(filepath.Join(dir, "more"), 32<<20, true)
	t.Log("write and sync:", err)
	is.True(errors.Is(err, unix.EIO) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EROFS)) // who syncs is told
	_, err = s.Unmount(t.Context(), "v")
	t.Log("unmount:", err)

	is.NoErr(os.Remove(ballast))
	is.NoErr(unix.Access(root, unix.W_OK))
	_, err = s.Mount(t.Context(), "v", size, 1000, 1000)
	is.NoErr(err)
	os.Remove(filepath.Join(dir, "more"))
	is.Equal(hash(t, dir), want) // what was there before is
	is.NoErr(write(filepath.Join(dir, "after"), 8<<20, true))
	unmount(t, s, "v")
}

func TestTemplates(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	for i := range int64(volume.MaxTemplates + 3) {
		_, err := s.Mount(t.Context(), "v", volume.MinSize+i*4096, 1000, 1000)
		is.NoErr(err)
		is.NoErr(s.Remove(t.Context(), "v"))
		kept, err := os.ReadDir(filepath.Join(dir, "template"))
		is.NoErr(err)
		is.True(len(kept) > 0 && len(kept) <= volume.MaxTemplates)
	}
}

// TestNoTrial: for want of an answer no volume is made without its bound.
func TestNoTrial(t *testing.T) {
	is := is.New(t)
	s, dir := openPlain(t)
	s.NotEnforced(volume.ErrTrial)
	_, err := s.Mount(t.Context(), "v", size, 1000, 1000)
	is.True(errors.Is(err, volume.ErrTrial))
	list, err := s.List()
	is.NoErr(err)
	is.Equal(len(list), 0)
	again, err := volume.Open(dir)
	is.NoErr(err)
	if err := again.Enforced(); err != nil {
		runtimetest.Lacks(t, err)
	}
	mount(t, again, "v")
}

// TestPeers: a mount of this machine that has peers, as all have where systemd
// is, does not pass volumes on to them.
func TestPeers(t *testing.T) {
	is := is.New(t)
	here, peer := t.TempDir(), t.TempDir()
	is.NoErr(unix.Mount(here, here, "", unix.MS_BIND, ""))
	t.Cleanup(func() { is.NoErr(unix.Unmount(here, 0)) })
	is.NoErr(unix.Mount("", here, "", unix.MS_SHARED, ""))
	is.NoErr(unix.Mount(here, peer, "", unix.MS_BIND, ""))
	t.Cleanup(func() { is.NoErr(unix.Unmount(peer, 0)) })
	s, err := volume.Open(filepath.Join(here, "store"))
	is.NoErr(err)
	if err := s.Enforced(); err != nil {
		runtimetest.Lacks(t, err)
	}
	mount(t, s, "v")
	is.Equal(len(mounts(peer)), 1) // the folder of mount points, which is empty
	_, err = os.Stat(filepath.Join(peer, "store", "mount", "v", "data"))
	is.True(errors.Is(err, os.ErrNotExist))
	is.NoErr(s.Remove(t.Context(), "v"))
	is.Equal(len(mounts(peer))+len(mounts(here)), 0)
}
