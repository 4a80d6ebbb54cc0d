package sandboxtest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A box is a sandbox of a Memory.
type box struct {
	info     sandbox.Info
	env      []string
	programs map[string]Program
	files    *tree
	timer    *time.Timer // of the lease

	ctx context.Context //nolint:containedctx // the box's own life: what is in it ends with it
	end context.CancelCauseFunc

	work sync.WaitGroup // commands and programs under way

	mu        sync.Mutex
	over      bool
	lastPID   int
	procs     map[int]*Proc
	listeners map[int]*listener
}

func newBox(info sandbox.Info, programs map[string]Program, env []string) *box {
	b := &box{
		info: info, programs: maps.Clone(vocabulary), files: newTree(),
		env: slices.Concat([]string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + homeDir, "USER=sandbox", "LOGNAME=sandbox", "LANG=C.UTF-8",
		}, env),
		procs: map[int]*Proc{}, listeners: map[int]*listener{},
	}
	maps.Copy(b.programs, programs)
	b.ctx, b.end = context.WithCancelCause(context.Background())
	return b
}

// enter begins a command, which leave ends; it is false once the box has ended.
func (b *box) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return false
	}
	b.work.Add(1)
	return true
}

func (b *box) leave() { b.work.Done() }

func (b *box) close() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.timer.Stop()
	b.end(sandbox.ErrEnded)
	b.work.Wait()
}

func (b *box) add(p *Proc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastPID++
	p.pid = b.lastPID
	b.procs[p.pid] = p
}

func (b *box) remove(p *Proc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.procs, p.pid)
}

// signal sends sig to the programs that want picks, and reports whether there
// was one.
func (b *box) signal(sig syscall.Signal, want func(*Proc) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := false
	for _, p := range b.procs {
		if want(p) {
			p.kill(sig)
			found = true
		}
	}
	return found
}

// environ is the environment of a command: of a name that is there twice the
// last value counts.
func (b *box) environ(p *sandbox.Process) []string {
	all := slices.Clone(b.env)
	if p.Terminal != nil {
		all = append(all, "TERM=xterm-256color")
	}
	var env []string
	at := map[string]int{}
	for _, kv := range append(all, p.Env...) {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := at[name]; ok {
			env[i] = kv
			continue
		}
		at[name] = len(env)
		env = append(env, kv)
	}
	return env
}
