package sandboxtest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hanzoai/sandbox/sandbox"
)

// A box is what runs of a sandbox of a Memory, from a lease or resume to the
// next pause or the end.
type box struct {
	sandbox  *instance
	workdir  string
	env      []string
	programs map[string]Program
	files    *tree

	ctx context.Context //nolint:containedctx // the box's own life: what is in it ends with it
	end context.CancelCauseFunc

	work sync.WaitGroup // calls and programs under way

	uses, watched int // what keeps it from being idle; guarded by the sandbox's mu

	mu        sync.Mutex
	lastPID   int
	procs     map[int]*Proc
	listeners map[int]*listener
}

func newBox(s *instance) *box {
	workdir := s.info.Workdir
	b := &box{
		sandbox: s, workdir: workdir, programs: maps.Clone(vocabulary), files: newTree(workdir, s.disk),
		env: slices.Concat([]string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + homeDir, "USER=sandbox", "LOGNAME=sandbox", "LANG=C.UTF-8",
		}, s.env),
		procs: map[int]*Proc{}, listeners: map[int]*listener{},
	}
	maps.Copy(b.programs, s.memory.Programs)
	b.ctx, b.end = context.WithCancelCause(context.Background())
	return b
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
