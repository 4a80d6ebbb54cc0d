package sandbox

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/internal/workpath"
)

var (
	_ Driver     = (*Runtime)(nil)
	_ FileSystem = (*Runtime)(nil)
	_ Dialer     = (*Runtime)(nil)
	_ PortLister = (*Runtime)(nil)
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
	s, err := r.find("end", id)
	if err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return &Error{Op: "end", ID: id, Err: ErrEnded} // Close sees to it
	}
	done := make(chan error, 1)
	go func() {
		defer r.tasks.Done()
		done <- s.end()
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return &Error{Op: "end", ID: id, Err: err}
	}
	return nil
}

// Exec implements Driver.
func (r *Runtime) Exec(ctx context.Context, id string, p *Process) (ExitStatus, error) {
	s, err := r.find("exec", id)
	if err != nil {
		return ExitStatus{}, err
	}
	run, cancel := r.bound(ctx)
	defer cancel()
	exit, err := s.client.Exec(run, s.command(p))
	if err == nil {
		return s.blame(statusOf(exit)), nil
	}
	return s.failed(run, exit, err)
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
func (s *instance) failed(ctx context.Context, exit wire.Exit, err error) (ExitStatus, error) {
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Phase == wire.PhaseStart {
		return ExitStatus{}, &StartError{Path: e.Path, Err: startCause(e)}
	}
	if _, ok := errors.AsType[*client.StreamError](err); ok {
		return statusOf(exit), errors.Unwrap(err)
	}
	if ctx.Err() != nil {
		return cutStatus(causeOf(context.Cause(ctx))), nil
	}
	switch why := s.fate(err); {
	case errors.Is(why, ErrEnded):
		return cutStatus(CauseEnded), nil
	case errors.Is(why, errMemory):
		return cutStatus(CauseMemory), why
	case errors.Is(why, ErrLost):
		return cutStatus(CauseLost), nil
	}
	return ExitStatus{}, &Error{Op: "exec", ID: s.row.ID, Err: err}
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
		return CauseKilled
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

// fateWait is how long a broken connection waits to learn what broke it. The
// watch breaks at the same moment.
const fateWait = time.Second

// fate says what a lost connection means: that the sandbox has ended, or that
// it is lost. Any other error it returns as it is.
func (s *instance) fate(err error) error {
	if !errors.Is(err, client.ErrLost) {
		return err
	}
	select {
	case <-s.gone:
		return s.why
	case <-s.runtime.ctx.Done():
		return ErrEnded
	case <-time.After(fateWait):
		return err
	}
}
