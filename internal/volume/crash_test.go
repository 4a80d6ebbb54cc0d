package volume_test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/volume"
)

// TestAfterTheProcess: what a process that is killed has mounted is used on.
func TestAfterTheProcess(t *testing.T) {
	is := is.New(t)
	_, dir := open(t)
	die(t, "flushed", dir)
	is.Equal(len(mounts(dir)), 2)
	next, err := volume.Open(dir)
	is.NoErr(err)
	is.Equal(len(mounts(dir)), 2) // not touched
	b, err := os.ReadFile(filepath.Join(mount(t, next, "v"), "file"))
	is.NoErr(err)
	is.Equal(string(b), "content")
	is.Equal(len(mounts(dir)), 2)
}

// die runs a process that is killed at a step.
func die(t *testing.T, at, in string) {
	t.Helper()
	cmd := osexec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), dieAt+"="+at, dieIn+"="+in)
	out, err := cmd.CombinedOutput()
	if e, ok := errors.AsType[*osexec.ExitError](err); !ok || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it did not come to %s: %v\n%s", at, err, out)
	}
}

// TestDeathAtEachStep: the next Store has nothing to see of it, and the volume,
// if there is one, is whole.
func TestDeathAtEachStep(t *testing.T) {
	for _, at := range []string{
		"template", "copied", "named", "loop", "mounted", "points", "attached", "owned",
		"flushed", "unmounted", "set aside",
	} {
		t.Run(at, func(t *testing.T) {
			is := is.New(t)
			_, dir := open(t)
			die(t, at, dir)
			s, err := volume.Open(dir)
			is.NoErr(err)
			list, err := s.List()
			is.NoErr(err)
			held := 0
			if len(list) > 0 && list[0].Mounted {
				held = 1
			}
			is.Equal(len(loops(dir)), held)
			is.Equal(len(mounts(dir)), 2*held) // with the folder that they are in
			left, err := os.ReadDir(filepath.Join(dir, "tmp"))
			is.NoErr(err)
			is.Equal(len(left), 0)
			b, err := os.ReadFile(filepath.Join(mount(t, s, "v"), "file"))
			if at == "flushed" || at == "unmounted" {
				is.NoErr(err)
				is.Equal(string(b), "content")
			} else {
				is.True(errors.Is(err, os.ErrNotExist))
			}
			unmount(t, s, "v")
			is.NoErr(s.Remove(t.Context(), "v"))
		})
	}
}

// TestStaleLoop: a device that somebody forgot is given back.
func TestStaleLoop(t *testing.T) {
	is := is.New(t)
	s, dir := open(t)
	mount(t, s, "v")
	unmount(t, s, "v")
	forget(t, filepath.Join(dir, "volume", "v", "image"))
	is.Equal(len(loops(dir)), 1)
	_, err := volume.Open(dir)
	is.NoErr(err)
	is.Equal(len(loops(dir)), 0)
}

// forget makes a loop device that stays.
func forget(t *testing.T, path string) {
	t.Helper()
	is := is.New(t)
	image, err := os.OpenFile(path, os.O_RDWR, 0)
	is.NoErr(err)
	defer image.Close()
	control, err := os.Open("/dev/loop-control")
	is.NoErr(err)
	defer control.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		is.NoErr(err)
		dev, err := os.OpenFile(fmt.Sprint("/dev/loop", n), os.O_RDWR, 0)
		is.NoErr(err)
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &unix.LoopConfig{Fd: uint32(image.Fd())})
		is.NoErr(dev.Close())
		if !errors.Is(err, unix.EBUSY) { // somebody else got it first
			is.NoErr(err)
			return
		}
	}
}

// TestMachineCrash: what had been synced is there after the journal is replayed.
// An image that is copied while it is mounted is what a crash leaves of it.
func TestMachineCrash(t *testing.T) {
	is := is.New(t)
	s, root := open(t)
	dir := mount(t, s, "v")
	is.NoErr(os.Mkdir(filepath.Join(dir, "d"), 0o755))
	is.NoErr(write(filepath.Join(dir, "d", "synced"), 1<<20, true))
	want := hash(t, filepath.Join(dir, "d"))
	is.NoErr(write(filepath.Join(dir, "not"), 1<<20, false))
	crashed := filepath.Join(root, "volume", "crashed")
	is.NoErr(os.Mkdir(crashed, 0o700))
	is.NoErr(osexec.Command("cp", "--sparse=always", filepath.Join(root, "volume", "v", "image"), filepath.Join(crashed, "image")).Run())
	is.Equal(hash(t, filepath.Join(mount(t, s, "crashed"), "d")), want)
}
