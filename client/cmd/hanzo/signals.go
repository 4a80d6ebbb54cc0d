package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is how long an end that was asked for may take. What takes longer
// waits for somebody to read what this program writes.
const patience = 2 * time.Second

// ending are the signals that ask for an end.
var ending = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// notify is signal.Notify for signals that this program was not started to
// ignore, as those are that are started by nohup, or in the background of a
// script.
func notify(c chan<- os.Signal, signals []os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// catch has a signal end what a command does, and a second one the program.
func (a *app) catch(end context.CancelCauseFunc) (stop func()) {
	in, done := make(chan os.Signal, 2), make(chan struct{})
	notify(in, ending)
	go func() {
		select {
		case <-done:
		case s := <-in:
			code := signalled(s)
			end(&exitError{code, errors.New("interrupted")})
			select {
			case <-done:
			case <-in:
				a.leave(code)
			case <-time.After(patience):
				a.leave(code)
			}
		}
	}()
	return func() {
		signal.Stop(in)
		close(done)
	}
}

// signalled is the exit code that tells of a signal.
func signalled(s os.Signal) int {
	n, _ := s.(syscall.Signal) //nolint:errcheck // there are no others
	return 128 + int(n)
}

// leave ends this program at once, with its terminal as it was.
func (a *app) leave(code int) {
	if t := a.tty.Load(); t != nil {
		t.reset()
		t.restore()
	}
	os.Exit(code)
}

// interruptible is what f returns, unless ctx ends first: nothing else ends a read
// from a terminal or a pipe. F goes on then, until this program ends.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// An input is standard input until a context ends.
type input struct {
	ctx context.Context //nolint:containedctx // an io.Reader has no place for one
}

func (i input) Read(p []byte) (int, error) {
	return interruptible(i.ctx, func() (int, error) { return os.Stdin.Read(p) })
}
