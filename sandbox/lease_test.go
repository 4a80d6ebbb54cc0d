//go:build linux

package sandbox_test

import (
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

var (
	ada    = sandbox.Owner{Org: "hanzo", Actor: "ada"}
	grace  = sandbox.Owner{Org: "hanzo", Actor: "grace"}
	others = sandbox.Owner{Org: "other"}
)

func TestLeaseByID(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Owner: ada, Disk: true})
	is.NoErr(err)
	before, err := sb.Info(t.Context())
	is.NoErr(err)
	writeFile(t, sb, "f", "x")

	again, err := rt.Lease(t.Context(), sandbox.Spec{ID: sb.ID(), Owner: ada, Class: "nosuch", TTL: time.Hour})
	is.NoErr(err)
	is.Equal(again.ID(), sb.ID()) // running: the same
	after, err := again.Info(t.Context())
	is.NoErr(err)
	is.Equal(after.Expires, before.Expires) // unchanged

	is.NoErr(sb.Pause(t.Context()))
	again, err = rt.Lease(t.Context(), sandbox.Spec{ID: sb.ID(), Owner: sandbox.Owner{Org: "hanzo"}})
	is.NoErr(err)
	is.Equal(again.ID(), sb.ID()) // parked: resumed, also by the organisation
	is.Equal(readFile(t, again, "f"), "x")

	for name, spec := range map[string]sandbox.Spec{
		"another org's":    {ID: sb.ID(), Owner: others},
		"another member's": {ID: sb.ID(), Owner: grace},
		"unknown":          {ID: strings.Repeat("x", 21), Owner: ada},
		"no id":            {ID: "../" + sb.ID(), Owner: ada},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			other, err := rt.Lease(t.Context(), spec)
			is.NoErr(err)
			is.True(other.ID() != spec.ID && other.ID() != sb.ID())
			_, err = other.FS(t.Context()).Open("f")
			is.True(errors.Is(err, fs.ErrNotExist)) // no trace of the other
			is.NoErr(other.End(t.Context()))
		})
	}
	is.NoErr(sb.End(t.Context()))
	fresh, err := rt.Lease(t.Context(), sandbox.Spec{ID: sb.ID(), Owner: ada})
	is.NoErr(err)
	is.True(fresh.ID() != sb.ID()) // ended: a new one
}

// atOnce leases the same thing n times at once.
func atOnce(t *testing.T, rt *sandbox.Runtime, n int, spec sandbox.Spec) (got []*sandbox.Sandbox, errs []error) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			sb, err := rt.Lease(t.Context(), spec)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else {
				got = append(got, sb)
			}
		})
	}
	wg.Wait()
	return got, errs
}

func TestOneSandboxAProject(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	got, errs := atOnce(t, rt, 8, sandbox.Spec{Owner: ada, Project: "a.b"})
	is.Equal(len(got), 1)
	for _, err := range errs {
		is.Equal(conflictOf(t, err).ID, got[0].ID()) // names who is in the way, also while that one starts
	}
	same, err := rt.Lease(t.Context(), sandbox.Spec{Owner: ada, Project: "a-b"})
	is.NoErr(err) // another project, however alike
	writeFile(t, same, "f", "x")
	_, err = got[0].FS(t.Context()).Open("f")
	is.True(errors.Is(err, fs.ErrNotExist)) // on another volume
	foreign, err := rt.Lease(t.Context(), sandbox.Spec{Owner: others, Project: "a.b"})
	is.NoErr(err) // another organisation's
	is.NoErr(foreign.End(t.Context()))

	is.NoErr(got[0].Pause(t.Context()))
	_, err = rt.Lease(t.Context(), sandbox.Spec{Owner: grace, Project: "a.b"})
	e := conflictOf(t, err)
	is.Equal(e.Status, sandbox.StatusParked) // a parked one has the project still
	is.Equal(e.ID, got[0].ID())
	is.NoErr(got[0].End(t.Context()))
	_, err = rt.Lease(t.Context(), sandbox.Spec{Owner: grace, Project: "a.b"})
	is.NoErr(err)
}

func TestCeiling(t *testing.T) {
	is := is.New(t)
	few := sandbox.Class{Name: sandbox.ClassExec, TTL: time.Hour, Workdir: "/mnt/data", Ceiling: 2}
	rt := runtimetest.New(t, sandbox.Config{Classes: []sandbox.Class{few}})
	got, errs := atOnce(t, rt, 6, sandbox.Spec{Owner: ada, Disk: true})
	is.Equal(len(got), 2)
	for _, err := range errs {
		e, ok := errors.AsType[*sandbox.CeilingError](err)
		is.True(ok && errors.Is(err, sandbox.ErrCeiling))
		is.Equal(*e, sandbox.CeilingError{Org: "hanzo", Class: "exec", Live: 2, Ceiling: 2})
	}
	_, err := rt.Lease(t.Context(), sandbox.Spec{Owner: ada, ID: got[0].ID()})
	is.NoErr(err) // to come back is not counted twice
	_, err = rt.Lease(t.Context(), sandbox.Spec{Owner: ada, Class: sandbox.ClassDev, Project: "p"})
	is.NoErr(err) // another class
	is.NoErr(got[0].Pause(t.Context()))
	third, err := rt.Lease(t.Context(), sandbox.Spec{Owner: grace})
	is.NoErr(err) // a parked one does not count
	is.True(errors.Is(got[0].Resume(t.Context()), sandbox.ErrCeiling))
	is.Equal(statusOf(t, got[0]), sandbox.StatusParked)
	is.NoErr(third.End(t.Context()))
	is.NoErr(got[0].Resume(t.Context()))
	for range 3 {
		_, err = rt.Lease(t.Context(), sandbox.Spec{})
		is.NoErr(err) // who is no organisation has no ceiling
	}
}

func TestClasses(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{Classes: []sandbox.Class{{Name: "tiny", TTL: time.Minute, Workdir: "/srv"}}})
	for _, c := range []struct {
		class, project, workdir string
		ttl                     time.Duration
	}{
		{"", "", "/mnt/data", 15 * time.Minute},
		{sandbox.ClassDev, "p", "/work", 4 * time.Hour},
		{"tiny", "", "/srv", time.Minute},
	} {
		sb, err := rt.Lease(t.Context(), sandbox.Spec{Class: c.class, Project: c.project})
		is.NoErr(err)
		info, err := sb.Info(t.Context())
		is.NoErr(err)
		is.Equal(info.Workdir, c.workdir)
		is.Equal(info.Expires.Sub(info.Created), c.ttl)
		out, err := sb.Command("pwd").Output(t.Context())
		is.NoErr(err)
		is.Equal(string(out), c.workdir+"\n")
		is.NoErr(sb.End(t.Context()))
	}
	for _, class := range []string{sandbox.ClassDev, sandbox.ClassDesktop} {
		_, err := rt.Lease(t.Context(), sandbox.Spec{Class: class})
		is.True(errors.Is(err, sandbox.ErrInvalid)) // wants a project
	}
}

func TestBadConfigs(t *testing.T) {
	for name, cfg := range map[string]sandbox.Config{
		"class without a name":   {Classes: []sandbox.Class{{TTL: time.Second, Workdir: "/w"}}},
		"class without a TTL":    {Classes: []sandbox.Class{{Name: "c", Workdir: "/w"}}},
		"class at /":             {Classes: []sandbox.Class{{Name: "c", TTL: time.Second, Workdir: "/"}}},
		"class outside":          {Classes: []sandbox.Class{{Name: "c", TTL: time.Second, Workdir: "/a/../b"}}},
		"class at nowhere":       {Classes: []sandbox.Class{{Name: "c", TTL: time.Second, Workdir: "w"}}},
		"class below a ceiling":  {Classes: []sandbox.Class{{Name: "c", TTL: time.Second, Workdir: "/w", Ceiling: -1}}},
		"class with little disk": {Classes: []sandbox.Class{{Name: "c", TTL: time.Second, Workdir: "/w", Disk: 1}}},
		"class of many":          {Classes: []sandbox.Class{{Name: "c", TTL: time.Second, Workdir: "/w", Pids: 1 << 40}}},
		"class in the system":    {Classes: []sandbox.Class{{Name: "c", TTL: time.Second, Workdir: "/usr/lib"}}},
		"negative life":          {MaxLife: -1},
		"negative sweep":         {Sweep: -1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := runtimetest.Open(t, cfg)
			is.New(t).True(errors.Is(err, sandbox.ErrInvalid))
		})
	}
}

func TestIdleSandboxesEnd(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	lease := func() *sandbox.Sandbox {
		sb, err := rt.Lease(t.Context(), sandbox.Spec{Class: sandbox.ClassDev, Project: strconv.Itoa(int(time.Now().UnixNano()))})
		is.NoErr(err)
		return sb
	}
	idle, looked, busy, reading, dialled := lease(), lease(), lease(), lease(), lease()
	sleeper(t, busy)
	writeFile(t, reading, "f", strings.Repeat("x", 1<<20))
	f, err := reading.FS(t.Context()).Open("f")
	is.NoErr(err)
	defer f.Close()
	server := runtimetest.Echo(t, dialled, 8080)
	listening, says := io.Pipe()
	server.Stdout = says
	go server.Run(t.Context())
	_, err = io.ReadFull(listening, make([]byte, len("listening\n")))
	is.NoErr(err)
	conn, err := dialled.DialContext(t.Context(), "tcp", "localhost:8080")
	is.NoErr(err)
	defer conn.Close()

	later := time.Now().Add(20 * time.Minute)
	rt.Sweep(time.Now())
	is.Equal(statusOf(t, idle), sandbox.StatusRunning)
	_, err = looked.Info(t.Context()) // to look is no use
	is.NoErr(err)
	rt.Sweep(later)
	for name, sb := range map[string]*sandbox.Sandbox{"idle": idle, "looked": looked} {
		_, err := sb.Info(t.Context())
		if !errors.Is(err, sandbox.ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, sb := range map[string]*sandbox.Sandbox{"busy": busy, "reading": reading, "dialled": dialled} {
		if got := statusOf(t, sb); got != sandbox.StatusRunning {
			t.Errorf("%s: %v", name, got)
		}
	}
	f.Close()
	rt.Sweep(later.Add(20 * time.Minute))
	_, err = reading.Info(t.Context())
	is.True(errors.Is(err, sandbox.ErrEnded)) // the file was the last use
	rt.Sweep(time.Now().Add(25 * time.Hour))
	_, err = busy.Info(t.Context())
	is.True(errors.Is(err, sandbox.ErrEnded)) // nothing outlives the longest life
}

func TestTerminalKeepsALittleLonger(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Class: sandbox.ClassDev, Project: "p"})
	is.NoErr(err)
	keys, typist := io.Pipe()
	screen, prints := io.Pipe()
	defer typist.Close()
	defer prints.Close()
	shell := sb.Command("sh", "-c", "echo up; read line; sleep 1000")
	shell.Stdin, shell.Stdout, shell.Terminal = keys, prints, sandbox.NewTerminal(24, 80)
	end := make(chan error, 1)
	go func() { end <- shell.Run(t.Context()) }()
	_, err = io.ReadFull(screen, make([]byte, 2))
	is.NoErr(err)
	go io.Copy(io.Discard, screen)
	opened := time.Now()
	rt.Sweep(opened.Add(59 * time.Minute))
	info, err := sb.Info(t.Context())
	is.NoErr(err)
	is.Equal(info.Status, sandbox.StatusRunning)
	is.True(!info.Connected.Before(opened)) // the terminal is seen
	_, err = io.WriteString(typist, "\n")
	is.NoErr(err)
	rt.Sweep(opened.Add(61 * time.Minute))
	_, err = sb.Info(t.Context())
	is.True(errors.Is(err, sandbox.ErrEnded)) // open, but nobody types
	e, ok := errors.AsType[*sandbox.ExitError](<-end)
	is.True(ok && e.Cause == sandbox.CauseEnded)
}

func TestUseLengthensALease(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{TTL: 2 * time.Second})
	is.NoErr(err)
	before, err := sb.Info(t.Context())
	is.NoErr(err)
	out, err := sb.Command("sh", "-c", "sleep 3; echo over").Output(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "over\n") // a command that runs when the lease would end
	after, err := sb.Info(t.Context())
	is.NoErr(err)
	is.True(after.Expires.Sub(before.Expires) > 50*time.Minute)
}

func TestRenew(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{Extend: -1})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{TTL: 2 * time.Second})
	is.NoErr(err)
	end, err := sb.Renew(t.Context(), time.Hour)
	is.NoErr(err)
	is.True(time.Until(end) > 59*time.Minute)
	same, err := sb.Renew(t.Context(), time.Minute)
	is.NoErr(err)
	is.True(same.Equal(end)) // never shorter
	longest, err := sb.Renew(t.Context(), 48*time.Hour)
	is.NoErr(err)
	info, err := sb.Info(t.Context())
	is.NoErr(err)
	is.True(longest.Equal(info.Created.Add(24 * time.Hour)))
	is.NoErr(sb.Command("sleep", "3").Run(t.Context())) // past the first end
	_, err = sb.Renew(t.Context(), -1)
	is.True(errors.Is(err, sandbox.ErrInvalid))
}

func TestLostSandboxFreesItsSlot(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Owner: ada, Project: "p"})
	is.NoErr(err)
	writeFile(t, sb, "f", "x")
	end := sleeper(t, sb)
	is.NoErr(runtimetest.SignalEngine(root, sb.ID(), syscall.SIGKILL))
	killed := time.Now()
	e, ok := errors.AsType[*sandbox.ExitError](<-end)
	is.True(ok && e.Cause == sandbox.CauseLost)
	info, err := sb.Info(t.Context())
	is.NoErr(err)
	is.Equal(info.Status, sandbox.StatusError)
	is.True(info.Error != "")
	is.True(time.Since(killed) < 2*time.Second)
	is.True(errors.Is(sb.Command("true").Run(t.Context()), sandbox.ErrLost))
	is.Equal(conflictOf(t, sb.Pause(t.Context())).Status, sandbox.StatusError)

	rt.Sweep(time.Now())
	is.Equal(statusOf(t, sb), sandbox.StatusParked) // its files are on a volume: they are kept for it
	is.NoErr(sb.Resume(t.Context()))
	is.Equal(readFile(t, sb, "f"), "x")

	plain, err := rt.Lease(t.Context(), sandbox.Spec{Owner: ada})
	is.NoErr(err)
	end = sleeper(t, plain)
	is.NoErr(runtimetest.SignalEngine(root, plain.ID(), syscall.SIGKILL))
	<-end
	rt.Sweep(time.Now())
	_, err = plain.Info(t.Context())
	is.True(errors.Is(err, sandbox.ErrEnded)) // nothing of it is left
}
