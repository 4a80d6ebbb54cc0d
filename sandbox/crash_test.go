//go:build linux

package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// A crash test runs this test binary once more, as a process that holds a
// Runtime, carries out one change of a sandbox and kills itself at one step of
// it. The next Runtime on the Root has to find nothing but what was before the
// change, or after it.
const (
	crashRoot   = "SANDBOX_TEST_CRASH_ROOT"
	crashChange = "SANDBOX_TEST_CRASH_CHANGE"
	crashStep   = "SANDBOX_TEST_CRASH_STEP"
	crashWith   = "SANDBOX_TEST_CRASH_WITH"
)

// changes are what can be cut short. Each gets a sandbox of project p that has
// a file f, unless it makes one or both.
var changes = map[string]func(ctx context.Context, rt *sandbox.Runtime, armed *bool) error{
	"create": func(ctx context.Context, rt *sandbox.Runtime, armed *bool) error {
		*armed = true
		_, err := rt.Lease(ctx, sandbox.Spec{Project: "p"})
		return err
	},
	"pause": withSandbox(func(ctx context.Context, sb *sandbox.Sandbox, armed *bool) error {
		*armed = true
		return sb.Pause(ctx)
	}),
	"resume": withSandbox(func(ctx context.Context, sb *sandbox.Sandbox, armed *bool) error {
		if err := sb.Pause(ctx); err != nil {
			return err
		}
		*armed = true
		return sb.Resume(ctx)
	}),
	"stage": func(ctx context.Context, rt *sandbox.Runtime, armed *bool) error {
		*armed = true
		sb, err := rt.Lease(ctx, sandbox.Spec{Parked: true})
		if err != nil {
			return err
		}
		st, err := sb.Stage(ctx)
		if err != nil {
			return err
		}
		return errors.Join(st.WriteFile(ctx, "f", strings.NewReader("kept"), 0o644), st.Close())
	},
	"end": withSandbox(func(ctx context.Context, sb *sandbox.Sandbox, armed *bool) error {
		*armed = true
		return sb.End(ctx)
	}),
	"purge": withSandbox(func(ctx context.Context, sb *sandbox.Sandbox, armed *bool) error {
		*armed = true
		return sb.Purge(ctx)
	}),
}

func withSandbox(change func(context.Context, *sandbox.Sandbox, *bool) error) func(context.Context, *sandbox.Runtime, *bool) error {
	return func(ctx context.Context, rt *sandbox.Runtime, armed *bool) error {
		sb, err := rt.Lease(ctx, sandbox.Spec{Project: "p"})
		if err != nil {
			return err
		}
		fmt.Println("id", sb.ID())
		if err := sb.WriteFile(ctx, "f", strings.NewReader("kept"), 0o644); err != nil {
			return err
		}
		return change(ctx, sb, armed)
	}
}

// crash is the process that crashes. Without a step to do so at it tells the
// steps that it passes.
func crash() {
	at, armed := os.Getenv(crashStep), false
	cfg := sandbox.WithStep(sandbox.Config{
		Root: os.Getenv(crashRoot), Executable: os.Getenv(crashWith),
		Events: func(e sandbox.Event) { fmt.Println("event", e.ID, e.Generation, e.Kind) },
	}, func(step string) {
		switch {
		case !armed:
		case at == "":
			fmt.Println("step", step)
		case at == step:
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	rt, err := sandbox.New(cfg)
	if err == nil {
		err = changes[os.Getenv(crashChange)](context.Background(), rt, &armed)
	}
	armed = false
	if err == nil {
		err = rt.Detach()
	}
	if err != nil {
		fmt.Println("error", err)
	}
}

// runCrash returns what the process said: what follows each word.
func runCrash(t *testing.T, root, change, step string) map[string][]string {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashRoot+"="+root, crashChange+"="+change, crashStep+"="+step, crashWith+"="+runtimetest.Executable(t))
	out, err := cmd.Output()
	killed := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if killed != (step != "") {
		t.Fatalf("%s at %q: %v\n%s", change, step, err, out)
	}
	said := map[string][]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		said[word] = append(said[word], rest)
	}
	if len(said["error"]) > 0 {
		t.Fatal(change, step, said["error"])
	}
	return said
}

func TestCrashAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("it kills processes, half a hundred times")
	}
	runtimetest.New(t, sandbox.Config{}) // skips where no engine can run
	for change := range changes {
		t.Run(change, func(t *testing.T) {
			steps := runCrash(t, emptyRoot(t), change, "")["step"]
			if len(steps) < 5 {
				t.Fatalf("only the steps %q", steps)
			}
			seen := map[string]bool{}
			for _, step := range steps {
				if seen[step] {
					continue
				}
				seen[step] = true
				t.Run(step, func(t *testing.T) { crashAt(t, change, step) })
			}
		})
	}
}

// emptyRoot returns a Root that is given back with all that is in it.
func emptyRoot(t *testing.T) string {
	root := t.TempDir()
	t.Cleanup(func() {
		rt, err := runtimetest.Open(t, sandbox.Config{Root: root})
		if err == nil {
			err = rt.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return root
}

// crashAt cuts a change short at a step, and looks at what the next Runtime
// makes of it.
func crashAt(t *testing.T, change, step string) {
	is := is.New(t)
	before := runtimetest.Snapshot()
	root := t.TempDir()
	said := runCrash(t, root, change, step)
	events := newLedger()
	for _, e := range said["event"] {
		events.enter(e)
	}
	rt := runtimetest.New(t, sandbox.Config{Root: root, Events: events.event})
	var list []sandbox.Info
	for info, err := range rt.List(t.Context()) {
		is.NoErr(err)
		list = append(list, info)
	}
	possible := map[string][]sandbox.Status{ // "" is gone
		"create": {"", sandbox.StatusRunning},
		"pause":  {sandbox.StatusRunning, sandbox.StatusParked},
		"resume": {sandbox.StatusParked, sandbox.StatusRunning},
		"stage":  {"", sandbox.StatusParked},
		"end":    {sandbox.StatusRunning, ""},
		"purge":  {sandbox.StatusRunning, ""},
	}
	now := sandbox.Status("")
	if len(list) > 0 {
		now = list[0].Status
		is.True(list[0].Project == "p" || change == "stage")
	}
	is.True(len(list) <= 1)
	is.True(slices.Contains(possible[change], now)) // before or after, and nothing between

	spec := sandbox.Spec{Project: "p"}
	if now != "" {
		spec.ID = list[0].ID
	}
	sb, err := rt.Lease(t.Context(), spec)
	is.NoErr(err) // it goes on, or makes way
	b, err := fs.ReadFile(sb.FS(t.Context()), "f")
	switch {
	case change == "create", change == "purge" && now == "":
		is.True(errors.Is(err, fs.ErrNotExist))
	case change == "stage" && errors.Is(err, fs.ErrNotExist): // it had not been put there yet
	default:
		is.NoErr(err)
		is.Equal(string(b), "kept") // no file is lost
	}
	is.NoErr(sb.Command("true").Run(t.Context()))
	is.NoErr(sb.Purge(t.Context()))
	is.NoErr(rt.Close())
	is.Equal(runtimetest.Left(before), nil)
	events.check(t)
	for id, list := range events.seen {
		if !strings.HasSuffix(list[len(list)-1], "ended") {
			t.Errorf("events of %s: %q", id, list)
		}
	}
}

// A ledger is a consumer of events that knows which it has seen: one that is
// told again is the same.
type ledger struct {
	mu   sync.Mutex
	seen map[string][]string // by sandbox: generation and kind
}

func newLedger() *ledger { return &ledger{seen: map[string][]string{}} }

func (l *ledger) event(e sandbox.Event) { l.enter(fmt.Sprintln(e.ID, e.Generation, e.Kind)) }

func (l *ledger) enter(said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, rest, _ := strings.Cut(strings.TrimSpace(said), " ")
	if !slices.Contains(l.seen[id], rest) {
		l.seen[id] = append(l.seen[id], rest)
	}
}

// check finds each event once, in order, and no end but the last.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, list := range l.seen {
		for i, e := range list {
			ended := strings.HasSuffix(e, " ended")
			if !strings.HasPrefix(e, fmt.Sprint(i+1, " ")) || ended && i < len(list)-1 {
				t.Errorf("events of %s: %q", id, list)
				break
			}
		}
	}
}

// TestReboot takes the engines away while no Runtime is there, and makes the
// rows those of another run of the machine.
func TestReboot(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	kept, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	writeFile(t, kept, "f", "kept")
	project, err := rt.Lease(t.Context(), sandbox.Spec{Project: "p"})
	is.NoErr(err)
	writeFile(t, project, "f", "project")
	plain, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.NoErr(rt.Detach())
	bystander := osexec.Command("sleep", "1000") // has the number of one of them, now
	is.NoErr(bystander.Start())
	defer bystander.Process.Kill()
	for _, sb := range []*sandbox.Sandbox{kept, project, plain} {
		is.NoErr(runtimetest.SignalEngine(root, sb.ID(), syscall.SIGKILL))
		is.NoErr(runtimetest.EditRow(root, sb.ID(), func(row map[string]any) {
			row["boot"] = "another"
			row["engine"] = []map[string]any{{"pid": bystander.Process.Pid, "started": 1}}
		}))
	}
	next := runtimetest.New(t, sandbox.Config{Root: root})
	for _, sb := range []*sandbox.Sandbox{kept, project} {
		again, err := next.Attach(t.Context(), sb.ID())
		is.NoErr(err)
		is.Equal(statusOf(t, again), sandbox.StatusParked)
		is.NoErr(again.Resume(t.Context()))
	}
	again, err := next.Attach(t.Context(), kept.ID())
	is.NoErr(err)
	is.Equal(readFile(t, again, "f"), "kept")
	_, err = next.Attach(t.Context(), plain.ID())
	is.True(errors.Is(err, sandbox.ErrEnded))
	is.NoErr(bystander.Process.Signal(syscall.Signal(0))) // who only has the number is left alone
	is.NoErr(next.Close())
}

func TestTakeOverKeepsTheClocks(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Class: sandbox.ClassDev, Project: "p"})
	is.NoErr(err)
	end := sleeper(t, sb)
	_, err = sb.Renew(t.Context(), 6*time.Hour)
	is.NoErr(err)
	is.NoErr(sb.Command("true").Run(t.Context()))
	before, err := sb.Info(t.Context())
	is.NoErr(err)
	is.NoErr(rt.Detach())
	<-end
	next := runtimetest.New(t, sandbox.Config{Root: root})
	again, err := next.Attach(t.Context(), sb.ID())
	is.NoErr(err)
	after, err := again.Info(t.Context())
	is.NoErr(err)
	is.True(after.Expires.Equal(before.Expires)) // a renewal is not forgotten
	is.True(after.Created.Equal(before.Created))
	is.True(after.Used.Sub(before.Used).Abs() <= time.Second) // nor when it was used
	next.Sweep(before.Used.Add(14 * time.Minute))
	is.Equal(statusOf(t, again), sandbox.StatusRunning)
	is.Equal(processes(t, again, "sleep"), 0)
	next.Sweep(time.Now().Add(15 * time.Minute))
	_, err = again.Info(t.Context())
	is.True(errors.Is(err, sandbox.ErrEnded))
}

// TestInitEndsTheLeaseAlone has nobody come back for a sandbox.
func TestInitEndsTheLeaseAlone(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{TTL: 2 * time.Second, Fixed: true})
	is.NoErr(err)
	info, err := sb.Info(t.Context())
	is.NoErr(err)
	pid, err := runtimetest.EnginePID(root, sb.ID())
	is.NoErr(err)
	is.NoErr(rt.Detach())
	is.True(runtimetest.Alive(pid))
	for runtimetest.Alive(pid) && time.Since(info.Expires) < 10*time.Second {
		<-time.After(10 * time.Millisecond)
	}
	is.True(!runtimetest.Alive(pid))
	is.True(!time.Now().Before(info.Expires)) // at its time, not before
	next := runtimetest.New(t, sandbox.Config{Root: root})
	_, err = next.Attach(t.Context(), sb.ID())
	is.True(errors.Is(err, sandbox.ErrEnded))
}

// TestTakeOverOfStoppedEngines finds sandboxes that live and do not answer.
func TestTakeOverOfStoppedEngines(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	kept, err := rt.Lease(t.Context(), sandbox.Spec{Disk: true})
	is.NoErr(err)
	writeFile(t, kept, "f", "kept")
	plain, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.NoErr(rt.Detach())
	for _, sb := range []*sandbox.Sandbox{kept, plain} {
		is.NoErr(runtimetest.SignalEngine(root, sb.ID(), syscall.SIGSTOP))
	}
	start := time.Now()
	next := runtimetest.New(t, sandbox.Config{Root: root})
	is.True(time.Since(start) < 8*time.Second) // one wait for both
	again, err := next.Attach(t.Context(), kept.ID())
	is.NoErr(err)
	is.Equal(statusOf(t, again), sandbox.StatusParked)
	is.NoErr(again.Resume(t.Context()))
	is.Equal(readFile(t, again, "f"), "kept")
	_, err = next.Attach(t.Context(), plain.ID())
	is.True(errors.Is(err, sandbox.ErrEnded))
}
