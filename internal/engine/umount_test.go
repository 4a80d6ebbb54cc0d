package engine_test

import (
	"os"
	osexec "os/exec"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/engine"
)

// mounted makes a mount, which only root can.
func mounted(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) }) // if the umounter has not
	return dir
}

func device(t *testing.T, path string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Dev
}

// umounter starts this test as the umounter of dir, which waits for word.
func umounter(t *testing.T, dir, word string) error {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &osexec.Cmd{
		Path: engine.Self, Args: []string{engine.Self, "umount", "--sync-fd=3", dir},
		Env: []string{}, ExtraFiles: []*os.File{r}, Stderr: os.Stderr,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := w.WriteString(word); err != nil {
		t.Error(err)
	}
	w.Close()
	return cmd.Wait()
}

func TestUmounter(t *testing.T) {
	is := is.New(t)
	dir := mounted(t)
	before := device(t, dir)
	is.NoErr(umounter(t, dir, "x"))
	is.True(device(t, dir) != before)     // it is gone
	is.True(umounter(t, dir, "x") != nil) // there is nothing more to unmount
}

// TestUmounterWithoutWord: whoever was to give it has died.
func TestUmounterWithoutWord(t *testing.T) {
	is := is.New(t)
	dir := mounted(t)
	before := device(t, dir)
	is.True(umounter(t, dir, "") != nil)
	is.Equal(device(t, dir), before)
}
