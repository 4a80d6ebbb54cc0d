//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
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

// soak makes the long tests as long as they are meant to be; without it they
// are short enough for every day.
const soak = "SANDBOX_SOAK"

func soaking() bool { return os.Getenv(soak) != "" }

// A model is what has to be true of a project whatever 16 goroutines do to it
// at once: what was written and not purged is read again, an id that has ended
// stays so, and of several sandboxes at once only one has the project.
type model struct {
	t       *testing.T
	rt      *sandbox.Runtime
	root    string
	project string

	// using is held shared by steps that change nothing about who has which
	// files, and alone by those that purge them.
	using sync.RWMutex

	mu      sync.Mutex
	written map[string]int // the latest number that was written, by writer
	ended   map[string]bool
}

// allowed are the errors that a step may meet, when others are at the same
// sandbox.
var allowed = []error{sandbox.ErrConflict, sandbox.ErrEnded, sandbox.ErrLost, sandbox.ErrNotFound}

func isAllowed(err error) bool {
	for _, a := range allowed {
		if errors.Is(err, a) {
			return true
		}
	}
	return err == nil
}

// held returns the sandbox that has the project, leasing one if none has.
func (m *model) held(ctx context.Context) (*sandbox.Sandbox, error) {
	sb, err := m.rt.Lease(ctx, sandbox.Spec{Project: m.project})
	if e, ok := errors.AsType[*sandbox.ConflictError](err); ok {
		return sandbox.Handle(m.rt, e.ID), nil
	}
	return sb, err
}

// steps are what happens to a project, by name.
var modelSteps = map[string]func(m *model, ctx context.Context, sb *sandbox.Sandbox, me string) error{
	"run": func(_ *model, ctx context.Context, sb *sandbox.Sandbox, _ string) error {
		return sb.Command("true").Run(ctx)
	},
	"write": (*model).write,
	"read":  (*model).read,
	"pause": func(_ *model, ctx context.Context, sb *sandbox.Sandbox, _ string) error { return sb.Pause(ctx) },
	"resume": func(_ *model, ctx context.Context, sb *sandbox.Sandbox, _ string) error {
		return sb.Resume(ctx)
	},
	"renew": func(_ *model, ctx context.Context, sb *sandbox.Sandbox, _ string) error {
		before := time.Now()
		end, err := sb.Renew(ctx, time.Hour)
		if err == nil && end.Before(before.Add(time.Hour)) {
			return fmt.Errorf("renewed until %v", end)
		}
		return err
	},
	"end": func(m *model, ctx context.Context, sb *sandbox.Sandbox, _ string) error {
		return m.over(sb, sb.End(ctx))
	},
	"purge": (*model).purge,
	"crash": func(m *model, _ context.Context, sb *sandbox.Sandbox, _ string) error {
		runtimetest.SignalEngine(m.root, sb.ID(), syscall.SIGKILL) // which may be gone, or paused
		return nil
	},
	"sweep": func(m *model, _ context.Context, _ *sandbox.Sandbox, _ string) error {
		m.rt.Sweep(time.Now())
		return nil
	},
}

func (m *model) over(sb *sandbox.Sandbox, err error) error {
	if err == nil {
		m.mu.Lock()
		m.ended[sb.ID()] = true
		m.mu.Unlock()
	}
	return err
}

func (m *model) write(ctx context.Context, sb *sandbox.Sandbox, me string) error {
	m.mu.Lock()
	next := m.written[me] + 1
	m.mu.Unlock()
	err := sb.WriteFile(ctx, me, strings.NewReader(strconv.Itoa(next)), 0o644)
	if err == nil {
		m.mu.Lock()
		m.written[me] = next
		m.mu.Unlock()
	}
	return err
}

// read reads what this goroutine wrote last. A write that failed may have had
// its effect all the same.
func (m *model) read(ctx context.Context, sb *sandbox.Sandbox, me string) error {
	m.mu.Lock()
	want := m.written[me]
	m.mu.Unlock()
	b, err := fs.ReadFile(sb.FS(ctx), me)
	if errors.Is(err, fs.ErrNotExist) && want == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if got, _ := strconv.Atoi(string(b)); got != want && got != want+1 {
		return fmt.Errorf("read %q, wrote %d", b, want)
	}
	return nil
}

func (m *model) purge(ctx context.Context, sb *sandbox.Sandbox, _ string) error {
	m.using.RUnlock()
	m.using.Lock()
	err := m.over(sb, sb.Purge(ctx))
	if err == nil {
		m.mu.Lock()
		clear(m.written)
		m.mu.Unlock()
	}
	m.using.Unlock()
	m.using.RLock()
	return err
}

// check looks at what is to hold at any time.
func (m *model) check(ctx context.Context) error {
	live := 0
	for info, err := range m.rt.List(ctx) {
		if err != nil {
			return err
		}
		m.mu.Lock()
		gone := m.ended[info.ID]
		m.mu.Unlock()
		if gone {
			return fmt.Errorf("%s is back, as %s", info.ID, info.Status)
		}
		if info.Project == m.project && info.Status != sandbox.StatusError {
			live++
		}
	}
	if live > 1 {
		return fmt.Errorf("project %s has %d sandboxes", m.project, live)
	}
	return nil
}

func (m *model) step(ctx context.Context, name, me string) error {
	m.using.RLock()
	defer m.using.RUnlock()
	sb, err := m.held(ctx)
	if err == nil {
		err = modelSteps[name](m, ctx, sb, me)
	}
	if !isAllowed(err) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return m.check(ctx)
}

// names draws steps: those that end or break things more rarely.
var names = strings.Fields("run run run write write write write read read read read pause pause resume resume renew end purge crash sweep")

func TestModel(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	const workers, projects = 16, 5
	steps := 12
	if soaking() {
		steps = 500
	}
	models := make([]*model, projects)
	for i := range models {
		models[i] = &model{t: t, rt: rt, root: root, project: fmt.Sprint("p", i), written: map[string]int{}, ended: map[string]bool{}}
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			draw := rand.New(rand.NewPCG(seed, uint64(w)))
			for range steps {
				m, name := models[draw.IntN(projects)], names[draw.IntN(len(names))]
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				if err := m.step(ctx, name, fmt.Sprint("w", w)); err != nil {
					t.Errorf("worker %d, project %s: %v", w, m.project, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for _, m := range models { // at rest, everything that was written is there
		rt.Sweep(time.Now())
		sb, err := m.held(t.Context())
		is.NoErr(err)
		is.NoErr(sb.Resume(t.Context()))
		for me := range m.written {
			if err := m.read(t.Context(), sb, me); err != nil {
				t.Error(m.project, me, err)
			}
		}
		is.NoErr(sb.Purge(t.Context()))
	}
	is.NoErr(rt.Close())
}
