//go:build linux

package sandbox_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// A parked sandbox takes files without an engine, and has them when it runs.
func TestStage(t *testing.T) {
	is := is.New(t)
	one := sandbox.Class{Name: "one", TTL: time.Hour, Workdir: "/mnt/data", Ceiling: 1}
	rt := runtimetest.New(t, sandbox.Config{Classes: []sandbox.Class{one}})
	org := rt.For(sandbox.Owner{Org: "a"})
	spec := sandbox.Spec{Class: "one", Parked: true, Env: []string{"GREETING=hello"}, TTL: 5 * time.Minute}
	sb, err := org.Lease(t.Context(), spec)
	is.NoErr(err)
	_, err = org.Lease(t.Context(), spec)
	is.NoErr(err) // it is not counted
	for range 14 {
		_, err = org.Lease(t.Context(), spec)
		is.NoErr(err)
	}
	_, err = org.Lease(t.Context(), spec)
	is.True(errors.Is(err, sandbox.ErrCeiling)) // though not without end
	info, err := sb.Info(t.Context())
	is.NoErr(err)
	is.Equal(info.Status, sandbox.StatusParked)

	st, err := sb.Stage(t.Context())
	is.NoErr(err)
	is.NoErr(st.WriteFile(t.Context(), "a/b/c.txt", strings.NewReader("old"), 0o600))
	is.NoErr(st.WriteFile(t.Context(), "/mnt/data/a/b/c.txt", strings.NewReader("new"), 0o600))
	for _, name := range []string{"", ".", "../x", "/etc/passwd", "a\x00b"} {
		err := st.WriteFile(t.Context(), name, strings.NewReader("x"), 0o644)
		is.True(errors.Is(err, fs.ErrInvalid))
	}
	err = st.WriteFile(t.Context(), "a/b", strings.NewReader("x"), 0o644)
	is.True(err != nil && !strings.Contains(err.Error(), "volumes")) // a folder is in the way
	is.True(errors.Is(st.WriteFile(t.Context(), "a/b/c.txt/d", strings.NewReader("x"), 0o644), syscall.ENOTDIR))
	broken := errors.New("broken")
	is.True(errors.Is(st.WriteFile(t.Context(), "a/b/c.txt", &failing{broken}, 0o644), broken))
	b, err := fs.ReadFile(st, "a/b/c.txt")
	is.NoErr(err)
	is.Equal(string(b), "new")
	is.NoErr(st.Close())
	is.NoErr(st.Close())

	is.NoErr(sb.Resume(t.Context()))
	out, err := sb.Command("sh", "-c", "id -u; stat -c '%u %a' a a/b/c.txt; cat a/b/c.txt; echo \" $GREETING\"; find . -name '.upload*'; echo x >> a/b/c.txt").Output(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "1000\n1000 755\n1000 600\nnew hello\n")
	info, err = sb.Info(t.Context())
	is.NoErr(err)
	is.True(time.Until(info.Expires) <= 5*time.Minute)
	_, err = sb.Stage(t.Context())
	is.True(errors.Is(err, sandbox.ErrConflict)) // programs have been there
	is.NoErr(sb.Pause(t.Context()))
	_, err = sb.Stage(t.Context())
	is.True(errors.Is(err, sandbox.ErrConflict))

	_, err = rt.For(sandbox.Owner{Org: "b"}).Stage(t.Context(), sb.ID())
	is.True(errors.Is(err, sandbox.ErrNotFound))
	_, err = org.Lease(t.Context(), sandbox.Spec{Parked: true, Project: "p"})
	is.True(errors.Is(err, sandbox.ErrInvalid))
}

// Names are as deep as they may be inside, and cost as much.
func TestStageDeep(t *testing.T) {
	is := is.New(t)
	sb, err := runtimetest.New(t, sandbox.Config{}).Lease(t.Context(), sandbox.Spec{Parked: true})
	is.NoErr(err)
	st, err := sb.Stage(t.Context())
	is.NoErr(err)
	defer st.Close()
	deep := strings.Repeat("d/", 2000)
	start := time.Now()
	is.NoErr(st.WriteFile(t.Context(), deep+"f", strings.NewReader("x"), 0o644))
	is.NoErr(st.WriteFile(t.Context(), deep+"f", strings.NewReader("x"), 0o644))
	is.True(time.Since(start) < 10*time.Second) // to look for each from the top takes minutes
	err = st.WriteFile(t.Context(), strings.Repeat("d/", 100_000)+"f", strings.NewReader("x"), 0o644)
	is.True(errors.Is(err, syscall.ENAMETOOLONG)) // as inside
}

// A Stage that is open is in nobody's way.
func TestStageAtTheEnd(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	stage := func() (*sandbox.Sandbox, sandbox.Stage) {
		sb, err := rt.Lease(t.Context(), sandbox.Spec{Parked: true})
		is.NoErr(err)
		st, err := sb.Stage(t.Context())
		is.NoErr(err)
		return sb, st
	}
	sb, st := stage()
	is.NoErr(st.WriteFile(t.Context(), "before", strings.NewReader("x"), 0o644))
	is.NoErr(sb.Resume(t.Context()))
	is.NoErr(st.WriteFile(t.Context(), "after", strings.NewReader("x"), 0o644))
	out, err := sb.Command("ls").Output(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "after\nbefore\n")
	is.NoErr(sb.Pause(t.Context()))
	is.NoErr(st.Close())
	is.NoErr(sb.Resume(t.Context()))

	sb, st = stage()
	is.NoErr(sb.End(t.Context()))
	is.True(errors.Is(st.WriteFile(t.Context(), "late", strings.NewReader("x"), 0o644), sandbox.ErrEnded))
	is.NoErr(st.Close())

	_, st = stage() // and at the end of the Runtime
	is.NoErr(rt.Close())
	is.NoErr(st.Close())
}

// failing gives some bytes, then an error.
type failing struct{ err error }

func (f *failing) Read(p []byte) (int, error) { return copy(p, "half"), f.err }

// One that nobody comes for ends; one that a program has run in does not.
func TestStagedForNobody(t *testing.T) {
	is := is.New(t)
	ended := make(chan string, 10)
	rt := runtimetest.New(t, sandbox.Config{MaxLife: 3 * time.Second, Sweep: 50 * time.Millisecond, Events: func(e sandbox.Event) {
		if e.Kind == sandbox.EventEnded {
			ended <- e.ID
		}
	}})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Parked: true})
	is.NoErr(err)
	used, err := rt.Lease(t.Context(), sandbox.Spec{Parked: true})
	is.NoErr(err)
	is.NoErr(used.Resume(t.Context()))
	is.NoErr(used.Pause(t.Context()))
	select {
	case id := <-ended:
		is.Equal(id, sb.ID())
	case <-time.After(20 * time.Second):
		t.Fatal("it lives on")
	}
	info, err := used.Info(t.Context())
	is.NoErr(err)
	is.Equal(info.Status, sandbox.StatusParked)
}
