package sandboxtest_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

var (
	ada    = sandbox.Owner{Org: "hanzo", Actor: "ada"}
	grace  = sandbox.Owner{Org: "hanzo", Actor: "grace"}
	hanzo  = sandbox.Owner{Org: "hanzo"}
	others = sandbox.Owner{Org: "other"}
)

func TestOwners(t *testing.T) {
	is := is.New(t)
	m := newMemory(t)
	lease := func(spec sandbox.Spec) *sandbox.Sandbox {
		sb, err := m.Lease(t.Context(), spec)
		is.NoErr(err)
		return sb
	}
	sb := lease(sandbox.Spec{Owner: ada, Project: "p"})
	is.NoErr(sb.WriteFile(t.Context(), "file", strings.NewReader("x"), 0o644))
	is.Equal(lease(sandbox.Spec{Owner: hanzo, ID: sb.ID()}).ID(), sb.ID())
	is.True(lease(sandbox.Spec{Owner: grace, ID: sb.ID()}).ID() != sb.ID())
	_, err := m.Lease(t.Context(), sandbox.Spec{Owner: grace, Project: "p"})
	is.True(errors.Is(err, sandbox.ErrConflict)) // a project is the organisation's
	foreign := lease(sandbox.Spec{Owner: others, ID: sb.ID(), Project: "p"})
	is.True(foreign.ID() != sb.ID())
	_, err = foreign.FS(t.Context()).Open("file")
	is.True(errors.Is(err, fs.ErrNotExist)) // and no other's
}

func TestCeiling(t *testing.T) {
	is := is.New(t)
	m := newMemory(t)
	var last *sandbox.Sandbox
	for range 16 {
		sb, err := m.Lease(t.Context(), sandbox.Spec{Owner: ada, Disk: true})
		is.NoErr(err)
		last = sb
	}
	_, err := m.Lease(t.Context(), sandbox.Spec{Owner: grace})
	e, ok := errors.AsType[*sandbox.CeilingError](err)
	is.True(ok)
	is.Equal(*e, sandbox.CeilingError{Org: "hanzo", Class: "exec", Live: 16, Ceiling: 16})
	_, err = m.Lease(t.Context(), sandbox.Spec{Owner: others})
	is.NoErr(err)
	is.NoErr(last.Pause(t.Context()))
	_, err = m.Lease(t.Context(), sandbox.Spec{Owner: grace})
	is.NoErr(err) // a parked one does not count
	is.True(errors.Is(last.Resume(t.Context()), sandbox.ErrCeiling))
	info, err := last.Info(t.Context())
	is.NoErr(err)
	is.Equal(info.Status, sandbox.StatusParked) // as before
}

func TestBadProjects(t *testing.T) {
	m := newMemory(t)
	for name, project := range map[string]string{
		"long":    strings.Repeat("p", 129),
		"control": "a\nb",
		"no text": "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Lease(t.Context(), sandbox.Spec{Project: project})
			is.New(t).True(errors.Is(err, sandbox.ErrInvalid))
		})
	}
}

// TestLengthening lets leases of a quarter of an hour run down. They are
// lengthened, to an hour from then, from their middle on.
func TestLengthening(t *testing.T) {
	for name, c := range map[string]struct {
		use   func(t *testing.T, sb *sandbox.Sandbox) // goes on until it is over by itself, or the sandbox is
		fixed bool
		life  time.Duration
	}{
		"unused":         {use: func(*testing.T, *sandbox.Sandbox) {}, life: 15 * time.Minute},
		"short command":  {use: sleeping("60"), life: 15 * time.Minute},
		"command":        {use: sleeping("600"), life: 67*time.Minute + 30*time.Second},
		"fixed":          {use: sleeping("600"), fixed: true, life: 15 * time.Minute},
		"open file":      {use: func(t *testing.T, sb *sandbox.Sandbox) { openFile(t, sb) }, life: 24 * time.Hour},
		"closed file":    {use: closedLate, life: 67*time.Minute + 30*time.Second},
		"watched":        {use: watched, life: 15 * time.Minute},
		"typed at":       {use: typedAt, life: 68 * time.Minute},
		"looked at once": {use: func(t *testing.T, sb *sandbox.Sandbox) { sb.Ports(t.Context()) }, life: 15 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				m := sandboxtest.NewMemory()
				sb, err := m.Lease(t.Context(), sandbox.Spec{Disk: true, Fixed: c.fixed})
				is.NoErr(err)
				go c.use(t, sb)
				var last sandbox.Info
				for err == nil {
					<-time.After(20 * time.Second)
					var info sandbox.Info
					if info, err = sb.Info(t.Context()); err == nil {
						last = info
					}
				}
				is.True(errors.Is(err, sandbox.ErrEnded))
				is.Equal(last.Expires.Sub(last.Created), c.life)
				is.NoErr(m.Close())
			})
		})
	}
}

func sleeping(seconds string) func(*testing.T, *sandbox.Sandbox) {
	return func(t *testing.T, sb *sandbox.Sandbox) {
		if err := sb.Command("sleep", seconds).Run(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func openFile(t *testing.T, sb *sandbox.Sandbox) fs.File {
	f, err := sb.FS(t.Context()).Open(".")
	if err != nil {
		t.Error(err)
	}
	return f
}

// closedLate closes a file when what it was opened in is no more: that takes
// nothing from the use that the sandbox is in by then.
func closedLate(t *testing.T, sb *sandbox.Sandbox) {
	f := openFile(t, sb)
	if err := errors.Join(sb.Pause(t.Context()), sb.Resume(t.Context()), f.Close()); err != nil {
		t.Error(err)
	}
	sleeping("600")(t, sb)
}

// terminal returns a command that lasts as long as its sandbox, and what types
// in it.
func terminal(sb *sandbox.Sandbox) (*sandbox.Cmd, *io.PipeWriter) {
	cmd := sb.Command("sleep", "1000000")
	keys, typist := io.Pipe()
	cmd.Stdin, cmd.Terminal = keys, sandbox.NewTerminal(24, 80)
	return cmd, typist
}

func watched(t *testing.T, sb *sandbox.Sandbox) {
	cmd, typist := terminal(sb)
	defer typist.Close()
	if err := cmd.Run(t.Context()); !errors.Is(err, sandbox.ErrEnded) {
		t.Error(err)
	}
}

func typedAt(t *testing.T, sb *sandbox.Sandbox) {
	cmd, typist := terminal(sb)
	defer typist.Close()
	time.AfterFunc(8*time.Minute, func() { io.WriteString(typist, "x") })
	if err := cmd.Run(t.Context()); !errors.Is(err, sandbox.ErrEnded) {
		t.Error(err)
	}
}
