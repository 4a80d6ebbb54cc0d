package volume_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/internal/volume"
)

// Environment of a test process that is to die: at which step, with the Store
// in which folder.
const (
	dieAt = "VOLUME_TEST_DIE_AT"
	dieIn = "VOLUME_TEST_DIE_IN"
)

// TestMain fails the run when a mount or a loop device is left.
func TestMain(m *testing.M) {
	if at := os.Getenv(dieAt); at != "" {
		liveAndDie(at, os.Getenv(dieIn))
	}
	runtimetest.Main(m, loops)
}

// loops are the devices of files under a folder.
func loops(dir string) (found []string) {
	names, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(b), dir) {
			found = append(found, name+": "+string(bytes.TrimSpace(b)))
		}
	}
	return found
}

// mounts are the lines about a folder in mountinfo.
func mounts(dir string) (found []string) {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, " "+dir+"/") {
			found = append(found, line)
		}
	}
	return found
}

// liveAndDie does with a volume all that can be done, and is killed meanwhile.
func liveAndDie(at, in string) {
	volume.DieAt(at)
	ctx := context.Background()
	s, err := volume.Open(in)
	for range 2 {
		var dir string
		if err == nil {
			dir, err = s.Mount(ctx, "v", volume.MinSize, 1000, 1000)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600)
		}
		if err == nil {
			_, err = s.Unmount(ctx, "v")
		}
	}
	if err == nil {
		err = s.Remove(ctx, "v")
	}
	fmt.Println("alive", err)
	os.Exit(3)
}

// open returns a Store that mounts, in a new folder, in which nothing is left
// mounted when the test ends.
func open(t testing.TB) (s *volume.Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := volume.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Enforced(); err != nil {
		runtimetest.Lacks(t, err)
	}
	t.Cleanup(func() { cleanUp(t, s, dir) })
	return s, dir
}

func cleanUp(t testing.TB, s *volume.Store, dir string) {
	list, err := s.List()
	if err != nil {
		t.Error(err)
	}
	for _, v := range list {
		if err := s.Remove(context.Background(), v.Name); err != nil {
			t.Error(err)
		}
	}
	if left := append(mounts(dir), loops(dir)...); len(left) > 0 {
		t.Error("left behind:", left)
	}
	for _, name := range []string{"tmp", "mount", "volume"} {
		if entries, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(entries) > 0 {
			t.Error(name, entries, err)
		}
	}
}

// openPlain returns a Store of plain folders.
func openPlain(t testing.TB) (s *volume.Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := volume.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.NotEnforced(io.ErrUnexpectedEOF)
	t.Cleanup(func() { cleanUp(t, s, dir) })
	return s, dir
}

// onDisk is how many bytes of this machine's disk a file takes.
func onDisk(t testing.TB, path string) int64 {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Blocks * 512
}
