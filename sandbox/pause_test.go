//go:build linux

package sandbox_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

func readFile(t *testing.T, sb *sandbox.Sandbox, name string) string {
	t.Helper()
	b, err := fs.ReadFile(sb.FS(t.Context()), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeFile(t *testing.T, sb *sandbox.Sandbox, name, text string) {
	t.Helper()
	if err := sb.WriteFile(t.Context(), name, strings.NewReader(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func statusOf(t *testing.T, sb *sandbox.Sandbox) sandbox.Status {
	t.Helper()
	info, err := sb.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Status
}

func conflictOf(t *testing.T, err error) *sandbox.ConflictError {
	t.Helper()
	e, ok := errors.AsType[*sandbox.ConflictError](err)
	if !ok || !errors.Is(err, sandbox.ErrConflict) {
		t.Fatalf("no conflict: %v", err)
	}
	return e
}

func TestPauseAndResume(t *testing.T) {
	for name, spec := range map[string]sandbox.Spec{
		"disk":    {Disk: true},
		"project": {Class: sandbox.ClassDev, Project: "paused"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			root := t.TempDir()
			rt := runtimetest.New(t, sandbox.Config{Root: root})
			sb, err := rt.Lease(t.Context(), spec)
			is.NoErr(err)
			before, err := sb.Info(t.Context())
			is.NoErr(err)
			is.True(before.Volume != "")
			writeFile(t, sb, "dir/kept", "kept")
			is.NoErr(sb.Command("touch", "/tmp/lost").Run(t.Context()))
			pid, err := runtimetest.EnginePID(root, sb.ID())
			is.NoErr(err)
			end := sleeper(t, sb)

			is.NoErr(sb.Pause(t.Context()))
			e, ok := errors.AsType[*sandbox.ExitError](<-end)
			is.True(ok && e.Cause == sandbox.CausePaused) // what ran is told why it ended
			is.True(errors.Is(e, sandbox.ErrConflict))
			is.True(!runtimetest.Alive(pid))
			is.NoErr(sb.Pause(t.Context())) // twice is fine
			parked, err := sb.Info(t.Context())
			is.NoErr(err)
			is.Equal(parked.Status, sandbox.StatusParked)
			is.True(parked.Expires.IsZero())
			is.Equal(conflictOf(t, sb.Command("true").Run(t.Context())).Status, sandbox.StatusParked)
			_, err = sb.FS(t.Context()).Open("dir/kept")
			is.True(errors.Is(err, sandbox.ErrConflict))
			_, err = sb.Renew(t.Context(), time.Hour)
			is.True(errors.Is(err, sandbox.ErrConflict))

			is.NoErr(sb.Resume(t.Context()))
			after, err := sb.Info(t.Context())
			is.NoErr(err)
			is.Equal(after.Status, sandbox.StatusRunning)
			is.True(after.Created.After(before.Created)) // its life is counted anew
			is.Equal(after.Expires.Sub(after.Created), before.Expires.Sub(before.Created))
			is.Equal(readFile(t, sb, "dir/kept"), "kept")
			is.NoErr(sb.Command("test", "!", "-e", "/tmp/lost").Run(t.Context()))
			is.NoErr(sb.Resume(t.Context())) // running: as it is
		})
	}
}

func TestPauseWithoutAVolume(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	e := conflictOf(t, sb.Pause(t.Context()))
	is.Equal(e.ID, sb.ID())
	is.True(strings.Contains(e.Error(), "Disk"))  // the remedy is named
	is.NoErr(sb.Command("true").Run(t.Context())) // and nothing has happened
}

func TestPauseKeepsAGrowingTree(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	var want string
	for range 8 {
		grow := sb.Command("sh", "-c", `i=$(ls | wc -l); mkdir d$i; head -c 300000 /dev/urandom >d$i/f; ln -s d$i/f l$i; ln d$i/f h$i; tar c . | sha256sum`)
		out, err := grow.Output(t.Context())
		is.NoErr(err)
		want = string(out)
		is.NoErr(sb.Pause(t.Context()))
		is.NoErr(sb.Resume(t.Context()))
		out, err = sb.Command("sh", "-c", "tar c . | sha256sum").Output(t.Context())
		is.NoErr(err)
		is.Equal(string(out), want) // to the byte, with times, owners and links
	}
}

func TestResumeThatFails(t *testing.T) {
	is := is.New(t)
	image := t.TempDir()
	is.NoErr(os.Chmod(image, 0o755))
	rt := runtimetest.New(t, sandbox.Config{Images: sandbox.Local{Dirs: map[string]string{"empty": image}}})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true, Image: "empty"})
	is.NoErr(err)
	writeFile(t, sb, "kept", "kept")
	is.NoErr(sb.Pause(t.Context()))
	before, err := sb.Info(t.Context())
	is.NoErr(err)
	is.NoErr(os.Rename(image, image+"-away"))
	is.True(sb.Resume(t.Context()) != nil)
	after, err := sb.Info(t.Context())
	is.NoErr(err)
	is.Equal(after, before) // parked, as if nothing had been tried
	is.NoErr(os.Rename(image+"-away", image))
	is.NoErr(sb.Resume(t.Context()))
	is.Equal(readFile(t, sb, "kept"), "kept")
}

func TestPurge(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	lease := func() *sandbox.Sandbox {
		sb, err := rt.Lease(t.Context(), sandbox.Spec{Project: "p"})
		is.NoErr(err)
		return sb
	}
	sb := lease()
	writeFile(t, sb, "f", "x")
	is.NoErr(sb.End(t.Context()))
	sb = lease()
	is.Equal(readFile(t, sb, "f"), "x") // the volume outlives the lease
	is.NoErr(sb.Pause(t.Context()))
	is.NoErr(sb.Purge(t.Context())) // also of a parked one
	is.True(errors.Is(sb.Resume(t.Context()), sandbox.ErrEnded))
	_, err := lease().FS(t.Context()).Open("f")
	is.True(errors.Is(err, fs.ErrNotExist))
}

func TestPauseAndResumeAtOnce(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	writeFile(t, sb, "f", "x")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			if i%2 == 0 {
				errs[i] = sb.Pause(t.Context())
			} else {
				errs[i] = sb.Resume(t.Context())
			}
		})
	}
	wg.Wait()
	is.NoErr(errors.Join(errs...))
	is.NoErr(sb.Resume(t.Context()))
	is.Equal(readFile(t, sb, "f"), "x")
}

// TestUsesAreOfALife closes what was opened before a pause, which is not to
// count against what is in use after it.
func TestUsesAreOfALife(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Class: sandbox.ClassDev, Project: "p"})
	is.NoErr(err)
	writeFile(t, sb, "f", "x")
	f, err := sb.FS(t.Context()).Open("f")
	is.NoErr(err)
	is.NoErr(sb.Pause(t.Context()))
	is.NoErr(sb.Resume(t.Context()))
	f.Close()
	sleeper(t, sb)
	rt.Sweep(time.Now().Add(20 * time.Minute))
	is.Equal(statusOf(t, sb), sandbox.StatusRunning)
}
