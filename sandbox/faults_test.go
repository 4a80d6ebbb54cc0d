//go:build linux

package sandbox_test

import (
	"errors"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// TestSweepDuringAPause has the reaper look in the middle of a pause.
func TestSweepDuringAPause(t *testing.T) {
	is := is.New(t)
	var rt *sandbox.Runtime
	noted := make(chan struct{}, 1)
	swept := make(chan struct{})
	rt = runtimetest.New(t, sandbox.WithStep(sandbox.Config{}, func(step string) {
		if step == "pause: noted" {
			noted <- struct{}{}
			<-swept
		}
	}))
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	writeFile(t, sb, "f", "kept")
	paused := make(chan error, 1)
	go func() { paused <- sb.Pause(t.Context()) }()
	<-noted
	rt.SweepStart(time.Now())
	close(swept)
	is.NoErr(<-paused)
	rt.Sweep(time.Now())
	is.Equal(statusOf(t, sb), sandbox.StatusParked)
	is.NoErr(sb.Resume(t.Context()))
	is.Equal(readFile(t, sb, "f"), "kept")
}

// TestNamesThatChangeOnDisk are refused before anything is theirs.
func TestNamesThatChangeOnDisk(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	for name, spec := range map[string]sandbox.Spec{
		"org that is no UTF-8":    {Owner: sandbox.Owner{Org: "\xff"}},
		"actor that is no UTF-8":  {Owner: sandbox.Owner{Org: "o", Actor: "\xff"}},
		"long org":                {Owner: sandbox.Owner{Org: strings.Repeat("o", 9<<20)}},
		"project with a NUL":      {Project: "a\x00b"},
		"long image":              {Image: strings.Repeat("i", 1<<20)},
		"a lease of a nanosecond": {TTL: 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rt.Lease(t.Context(), spec)
			is.New(t).True(errors.Is(err, sandbox.ErrInvalid))
		})
	}
}

// TestUntoldEventsAndNobodyToTell crashes in the telling, and goes on without.
func TestUntoldEventsAndNobodyToTell(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	is.NoErr(rt.Detach())
	is.NoErr(runtimetest.EditRow(root, sb.ID(), func(row map[string]any) {
		row["generation"] = 1
		row["events"] = []map[string]any{{"id": sb.ID(), "generation": 1, "kind": "leased"}}
	}))
	next := runtimetest.New(t, sandbox.Config{Root: root})
	again, err := next.Attach(t.Context(), sb.ID())
	is.NoErr(err)
	is.NoErr(again.Command("true").Run(t.Context()))
	is.NoErr(next.Detach())
	told := newLedger()
	last := runtimetest.New(t, sandbox.Config{Root: root, Events: told.event})
	is.NoErr(last.Close())
	is.Equal(told.seen[sb.ID()], []string{"1 leased", "2 ended"}) // they were kept for who listens
}

// TestFullDisk: what fills the disk can be ended.
func TestFullDisk(t *testing.T) {
	is := is.New(t)
	root := smallDisk(t)
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.True(sb.Command("sh", "-c", "cat /dev/zero > big").Run(t.Context()) != nil)
	is.NoErr(sb.End(runtimetest.Context(t, 20*time.Second)))
	sb, err = rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err) // and leaves room
	is.NoErr(sb.Command("true").Run(t.Context()))
	is.NoErr(rt.Close())
}

// smallDisk returns a folder on a file system of 96 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "root")
	steps := [][]string{{"truncate", "-s", "96M", image}, {"mkfs.ext4", "-q", image}, {"mkdir", at}, {"mount", "-o", "loop", image, at}}
	for _, step := range steps {
		if out, err := osexec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			runtimetest.Lacks(t, step, string(out), err)
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	return at
}

// TestWhatNoRowClaims is removed, and what cannot be read is not.
func TestWhatNoRowClaims(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	gone, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	broken, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	writeFile(t, broken, "f", "kept")
	is.NoErr(rt.Detach())
	for _, sb := range []*sandbox.Sandbox{gone, broken} {
		is.NoErr(runtimetest.SignalEngine(root, sb.ID(), syscall.SIGKILL))
	}
	is.NoErr(os.Remove(filepath.Join(root, "sandboxes", gone.ID(), "lease.json")))
	row := filepath.Join(root, "sandboxes", broken.ID(), "lease.json")
	good, err := os.ReadFile(row)
	is.NoErr(err)
	is.NoErr(os.WriteFile(row, good[:20], 0o600))
	next := runtimetest.New(t, sandbox.Config{Root: root})
	volumes := filepath.Join(root, "volumes", "volume")
	_, err = os.Stat(filepath.Join(volumes, "disk-"+gone.ID()))
	is.True(errors.Is(err, os.ErrNotExist))
	_, err = os.Stat(filepath.Join(volumes, "disk-"+broken.ID()))
	is.NoErr(err)
	is.NoErr(next.Detach())
	is.NoErr(os.WriteFile(row, good, 0o600)) // somebody mends it
	last := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := last.Lease(t.Context(), sandbox.Spec{ID: broken.ID()})
	is.NoErr(err)
	is.Equal(sb.ID(), broken.ID())
	is.Equal(readFile(t, sb, "f"), "kept")
	is.NoErr(last.Close())
}

// TestBackToALostSandbox comes back to one whose engine has just died.
func TestBackToALostSandbox(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	writeFile(t, sb, "f", "kept")
	end := sleeper(t, sb)
	is.NoErr(runtimetest.SignalEngine(root, sb.ID(), syscall.SIGKILL))
	<-end
	again, err := rt.Lease(t.Context(), sandbox.Spec{ID: sb.ID()})
	is.NoErr(err)
	is.Equal(again.ID(), sb.ID()) // its files are there, so it is
	is.Equal(readFile(t, again, "f"), "kept")
}

// TestPrivateRootThatIsBroken is swept like any other: no Runtime comes for it.
func TestPrivateRootThatIsBroken(t *testing.T) {
	is := is.New(t)
	root := filepath.Join(os.TempDir(), "sandbox-broken")
	dir := filepath.Join(root, "sandboxes", strings.Repeat("a1z", 7))
	is.NoErr(os.MkdirAll(dir, 0o700))
	is.NoErr(os.WriteFile(filepath.Join(root, "private"), nil, 0o600))
	is.NoErr(os.WriteFile(filepath.Join(dir, "lease.json"), []byte("{"), 0o600))
	runtimetest.New(t, sandbox.Config{})
	_, err := os.Stat(root)
	is.True(errors.Is(err, os.ErrNotExist))
}
