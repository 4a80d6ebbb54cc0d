package sandboxtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/workpath"
	"github.com/hanzoai/sandbox/sandbox"
)

// killGrace is how long the caller's writers may hold up a command that has
// been cut short.
const killGrace = 800 * time.Millisecond

// A job is a command with all that it starts.
type job struct {
	box   *box
	ctx   context.Context //nolint:containedctx // the job's own life: its programs end with it
	kill  context.CancelCauseFunc
	users atomic.Int32 // Exec and the programs; the last one gives ctx back

	stdin   *feed
	outputs []*output
	done    chan struct{}    // closed when Exec returns
	grace   <-chan time.Time // runs once ctx has ended
}

// Exec implements sandbox.Driver.
func (m *Memory) Exec(ctx context.Context, id string, p *sandbox.Process) (sandbox.ExitStatus, error) {
	enter := m.use
	if p.Terminal != nil {
		enter = m.watching
	}
	u, err := enter("exec", id)
	if err != nil {
		return sandbox.ExitStatus{}, err
	}
	defer u.done()
	b := u.box
	if ctx.Err() != nil {
		return cutStatus(context.Cause(ctx)), nil
	}
	env := b.environ(p)
	program, err := b.prepare(p)
	if err != nil {
		return sandbox.ExitStatus{}, err
	}
	j := &job{box: b, done: make(chan struct{})}
	j.ctx, j.kill = context.WithCancelCause(b.ctx)
	defer j.leave()
	main := j.connect(p)
	main.Env = env
	stop := context.AfterFunc(ctx, func() { j.kill(context.Cause(ctx)) })
	defer stop()
	go j.relay(p.Signals)
	main.start(program)
	if j.stdin != nil {
		context.AfterFunc(main.ctx, j.stdin.close)
	}
	return j.wait(main, p.WaitDelay)
}

// prepare finds the program, and the directory that it is to start in.
func (b *box) prepare(p *sandbox.Process) (Program, error) {
	if len(p.Args) == 0 {
		return nil, &sandbox.StartError{Err: syscall.EINVAL}
	}
	dir := workpath.Dir(b.workdir, p.Dir)
	info, err := b.files.stat(dir, true)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &sandbox.StartError{Path: dir, Err: err}
	}
	program, err := b.lookup(p.Args[0], dir)
	if err != nil {
		return nil, &sandbox.StartError{Path: p.Args[0], Err: err}
	}
	return program, nil
}

// connect makes the command's first program and connects its streams.
func (j *job) connect(p *sandbox.Process) *Proc {
	j.users.Add(1)
	main := &Proc{
		Args: p.Args, Dir: workpath.Dir(j.box.workdir, p.Dir), User: p.User, Limits: p.Limits, Terminal: p.Terminal,
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, job: j,
	}
	if p.Stdin != nil {
		j.stdin = newFeed(j.box.input(p))
		main.Stdin = j.stdin.r
	}
	if p.Stdout != nil {
		main.Stdout = j.newOutput(p.Stdout)
	}
	switch {
	case p.Terminal != nil, p.Stderr != nil && same(p.Stdout, p.Stderr):
		main.Stderr = main.Stdout
	case p.Stderr != nil:
		main.Stderr = j.newOutput(p.Stderr)
	}
	return main
}

func (j *job) newOutput(w io.Writer) *output {
	out := newOutput(w)
	context.AfterFunc(j.ctx, out.cut)
	j.outputs = append(j.outputs, out)
	return out
}

// same reports whether two writers are one: then one stream keeps the order.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }() // they may be of a type that cannot be compared
	return a == b
}

// wait waits for the first program, then for the others as long as delay, then
// for the caller's writers.
func (j *job) wait(main *Proc, delay time.Duration) (sandbox.ExitStatus, error) {
	defer close(j.done)
	if !j.await(main.done) {
		return cutStatus(context.Cause(j.ctx)), nil
	}
	late, cancel := context.WithTimeout(j.ctx, delay)
	defer cancel()
	for _, out := range j.outputs {
		select {
		case <-out.done:
		case <-late.Done():
		}
		out.leave()
	}
	for _, out := range j.outputs {
		if !j.await(out.done) {
			return cutStatus(context.Cause(j.ctx)), nil
		}
	}
	return main.status, j.failure(main.status)
}

// failure is the error of a stream of the caller's, unless what cut the
// command short explains more.
func (j *job) failure(status sandbox.ExitStatus) error {
	if status.Cause != sandbox.CauseExit && status.Cause != sandbox.CauseSignal {
		return nil
	}
	var errs []error
	for _, out := range j.outputs {
		errs = append(errs, out.err)
	}
	if j.stdin != nil {
		errs = append(errs, j.stdin.failure())
	}
	return errors.Join(errs...)
}

// await waits for ch; once the job has been killed, no longer than the grace.
func (j *job) await(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-j.ctx.Done():
	}
	if j.grace == nil {
		j.grace = time.After(killGrace)
	}
	select {
	case <-ch:
		return true
	case <-j.grace:
		return false
	}
}

// relay passes the caller's signals on to all programs of the job.
func (j *job) relay(signals <-chan syscall.Signal) {
	for {
		select {
		case <-j.done:
			return
		case sig, ok := <-signals:
			if !ok {
				return
			}
			j.box.signal(sig, func(p *Proc) bool { return p.job == j })
		}
	}
}

func (j *job) leave() {
	if j.users.Add(-1) == 0 {
		j.kill(nil)
	}
}

// cutStatus is the status of a command that was cut short, and by what.
func cutStatus(why error) sandbox.ExitStatus {
	status := sandbox.ExitStatus{Cause: sandbox.CauseKilled, Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL}
	switch {
	case errors.Is(why, sandbox.ErrTimeout), errors.Is(why, context.DeadlineExceeded):
		status.Cause = sandbox.CauseTimeout
	case errors.Is(why, sandbox.ErrEnded):
		status.Cause = sandbox.CauseEnded
	case errors.Is(why, sandbox.ErrConflict):
		status.Cause = sandbox.CausePaused
	}
	return status
}
