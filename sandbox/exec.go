//go:build linux

package sandbox

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/internal/workpath"
)

var (
	_ Driver     = (*Runtime)(nil)
	_ FileSystem = (*Runtime)(nil)
	_ TreeLister = (*Runtime)(nil)
	_ Stager     = (*Runtime)(nil)
	_ Dialer     = (*Runtime)(nil)
	_ PortLister = (*Runtime)(nil)
	_ Pauser     = (*Runtime)(nil)
	_ Renewer    = (*Runtime)(nil)
	_ Purger     = (*Runtime)(nil)
)

// Info implements Driver.
func (r *Runtime) Info(_ context.Context, id string) (Info, error) {
	s, err := r.find("info", id)
	if err != nil {
		return Info{}, err
	}
	return s.info(), nil
}

// End implements Driver. The end goes on when ctx does not: half of one helps
// nobody.
func (r *Runtime) End(ctx context.Context, id string) error {
	return opError("end", id, r.endOne(ctx, "end", id, false))
}

// Purge implements Purger.
func (r *Runtime) Purge(ctx context.Context, id string) error {
	return opError("purge", id, r.endOne(ctx, "purge", id, true))
}

func (r *Runtime) endOne(ctx context.Context, op, id string, purge bool) error {
	s, err := r.find(op, id)
	if err != nil {
		return err
	}
	err = r.carryOut(ctx, func() error { return s.end(ReasonEnd, purge) })
	if errors.Is(err, ErrClosed) {
		return ErrEnded // Close sees to it
	}
	return err
}

// Exec implements Driver.
func (r *Runtime) Exec(ctx context.Context, id string, p *Process) (ExitStatus, error) {
	enter := r.use
	if p.Terminal != nil {
		enter = r.watching
	}
	u, err := enter("exec", id)
	if err != nil {
		return ExitStatus{}, err
	}
	defer u.done()
	if p.Terminal != nil {
		defer p.Terminal.begin(u.watch)()
	}
	run, cancel := r.bound(ctx)
	defer cancel()
	cmd := u.command(p)
	if p.Terminal != nil && p.Stdin != nil {
		cmd.Stdin = &typing{p.Stdin, u.instance}
	}
	exit, err := u.client.Exec(run, cmd)
	if err == nil {
		return u.blame(statusOf(exit)), nil
	}
	return u.failed(run, exit, err)
}

func (s *instance) command(p *Process) *client.Command {
	env := s.row.Env
	cmd := &client.Command{
		Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Signals: p.Signals,
		Request: wire.Request{
			Argv: p.Args,
			Dir:  workpath.Dir(s.row.Workdir, p.Dir),
			UID:  p.User.UID, GID: p.User.GID,
			WaitDelay: p.WaitDelay,
		},
	}
	for _, l := range p.Limits {
		cmd.Limits = append(cmd.Limits, wire.Limit(l))
	}
	if t := p.Terminal; t != nil {
		cmd.Terminal = true
		cmd.Rows, cmd.Cols = t.Size()
		cmd.Size, cmd.Resized = t.Size, t.Resized()
		env = append(env[:len(env):len(env)], "TERM=xterm-256color")
	}
	cmd.Env = override(env, p.Env)
	return cmd
}

// override returns env with the values of others in the place of its own.
func override(env, others []string) []string {
	all := append(env[:len(env):len(env)], others...)
	last := make(map[string]int, len(all))
	for i, kv := range all {
		key, _, _ := strings.Cut(kv, "=")
		last[key] = i
	}
	kept := make([]string, 0, len(all))
	for i, kv := range all {
		if key, _, _ := strings.Cut(kv, "="); last[key] == i {
			kept = append(kept, kv)
		}
	}
	return kept
}

// failed sorts out what a command's failing call means.
func (u *use) failed(ctx context.Context, exit wire.Exit, err error) (ExitStatus, error) {
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Phase == wire.PhaseStart {
		return ExitStatus{}, &StartError{Path: e.Path, Err: startCause(e)}
	}
	if _, ok := errors.AsType[*client.StreamError](err); ok {
		return statusOf(exit), errors.Unwrap(err)
	}
	if ctx.Err() != nil {
		return cutStatus(causeOf(context.Cause(ctx))), nil
	}
	switch why := u.fate(err); {
	case errors.Is(why, ErrEnded):
		return cutStatus(CauseEnded), nil
	case errors.Is(why, errMemory):
		return cutStatus(CauseMemory), why
	case errors.Is(why, ErrLost):
		return cutStatus(CauseLost), nil
	case errors.Is(why, ErrConflict):
		return cutStatus(CausePaused), nil
	case errors.Is(why, errDetached):
		return cutStatus(CauseServer), nil
	}
	return ExitStatus{}, &Error{Op: "exec", ID: u.id, Err: err}
}

func startCause(e *wire.Error) error {
	if e.Text != "" {
		return &wrapped{text: e.Text, kind: e.Errno}
	}
	return e.Errno
}

func causeOf(err error) Cause {
	switch {
	case errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return CauseTimeout
	case errors.Is(err, errDetached):
		return CauseServer
	case errors.Is(err, ErrClosed):
		return CauseEnded
	}
	return CauseKilled
}

// cutStatus is the status of a command that was cut short.
func cutStatus(cause Cause) ExitStatus {
	return ExitStatus{Cause: cause, Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL}
}

func statusOf(e wire.Exit) ExitStatus {
	if e.Shed {
		return cutStatus(CauseMemory)
	}
	if e.Signal != 0 {
		return ExitStatus{Cause: CauseSignal, Code: 128 + int(e.Signal), Signal: e.Signal}
	}
	return ExitStatus{Cause: CauseExit, Code: e.Code}
}
