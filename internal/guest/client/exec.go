package client

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/linux"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// killGrace is how long a command that is being killed may take to tell its
// end, and its writers to take what it still had to say.
const killGrace = 500 * time.Millisecond

// A Command is what to run and what to connect to it.
type Command struct {
	wire.Request // its Op and Streams are set by Exec

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Signals <-chan syscall.Signal
	Resized <-chan struct{}
	Size    func() (rows, cols uint16)
}

// Exec runs a command to its end. When ctx ends first, the command is killed
// with everything it started, and the error is ctx's cause; what it had
// written until then is delivered. With a *StreamError the Exit is valid. Stdin may still be read from, once, after
// Exec has returned: no Read can be called back.
func (c *Client) Exec(ctx context.Context, cmd *Command) (wire.Exit, error) {
	cmd.Op, cmd.Streams = wire.OpExec, streams(cmd)
	l, err := c.start(ctx, &cmd.Request)
	if err != nil {
		return wire.Exit{}, err
	}
	// From here on kill decides what the end of ctx means.
	if err := l.release(); err != nil {
		l.Close()
		return wire.Exit{}, err
	}
	r := &run{call: l, size: cmd.Size, rows: cmd.Rows, cols: cmd.Cols, done: make(chan struct{}), killed: make(chan struct{})}
	return r.run(ctx, cmd)
}

func streams(cmd *Command) (s wire.Streams) {
	if cmd.Stdin != nil {
		s |= wire.Stdin
	}
	if cmd.Stdout != nil {
		s |= wire.Stdout
	}
	switch {
	case cmd.Stderr == nil:
	case same(cmd.Stdout, cmd.Stderr):
		s |= wire.Merged
	default:
		s |= wire.Stderr
	}
	return s
}

// same reports whether two writers are one: then one pipe keeps the order in
// which the command wrote, and no two goroutines write at once.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }() // they may be of a type that cannot be compared
	return a == b
}

// A run is a command under way.
type run struct {
	call   *call
	sinks  map[wire.Kind]*sink
	source *source

	size func() (rows, cols uint16) // nil without a terminal

	sendMu     sync.Mutex
	rows, cols uint16        // as the guest has been told
	done       chan struct{} // closed when Exec returns
	killed     chan struct{} // closed when the grace is over
}

func (r *run) run(ctx context.Context, cmd *Command) (wire.Exit, error) {
	defer r.call.Close()
	defer close(r.done)
	r.sinks = map[wire.Kind]*sink{}
	if cmd.Stdout != nil {
		r.sinks[wire.KindStdout] = r.newSink(cmd.Stdout, wire.KindStdout)
	}
	if cmd.Streams&wire.Stderr != 0 {
		r.sinks[wire.KindStderr] = r.newSink(cmd.Stderr, wire.KindStderr)
	}
	if cmd.Stdin != nil {
		r.source = newSource(cmd.Stdin, r)
		defer r.source.stop()
	}
	if cmd.Signals != nil || cmd.Resized != nil {
		go r.relay(cmd)
	}
	stop := context.AfterFunc(ctx, r.kill)
	defer stop()
	exit, err := r.listen()
	r.call.SetDeadline(time.Unix(1, 0)) // there is nothing more to say
	if late := r.drain(ctx); err == nil {
		err = late
	}
	return exit, r.verdict(ctx, exit, err)
}

// kill asks for the end of the command, and hangs up if that takes too long.
func (r *run) kill() {
	time.AfterFunc(killGrace, func() { close(r.killed) })
	r.call.SetDeadline(time.Now().Add(killGrace))
	r.send(wire.KindKill, nil)
}

// verdict is the error of a run. A command that had ended before ctx did has
// not been cut short.
func (r *run) verdict(ctx context.Context, exit wire.Exit, err error) error {
	if ctx.Err() != nil && (err != nil || exit.Killed) {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if r.source != nil {
		if err := r.source.failure(); err != nil {
			return &StreamError{err}
		}
	}
	for _, kind := range []wire.Kind{wire.KindStdout, wire.KindStderr} {
		if s := r.sinks[kind]; s != nil && s.err != nil {
			return &StreamError{s.err}
		}
	}
	return nil
}

// A StreamError is a reader or writer of the caller's that failed, while the
// command ended as told.
type StreamError struct{ Err error }

func (e *StreamError) Error() string { return e.Err.Error() }
func (e *StreamError) Unwrap() error { return e.Err }

func (r *run) send(kind wire.Kind, payload []byte) error {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	var frames []byte
	if r.size != nil && kind == wire.KindStdin { // what is typed, after the size that it is typed at
		frames = r.resize(false)
	}
	_, err := r.call.Write(wire.AppendFrame(frames, kind, payload))
	return err
}

// resize is the frame of the size, if that is news. The caller holds r.sendMu.
func (r *run) resize(always bool) []byte {
	rows, cols := r.size()
	if !always && rows == r.rows && cols == r.cols {
		return nil
	}
	r.rows, r.cols = rows, cols
	return wire.AppendFrame(nil, wire.KindResize, wire.Size(rows, cols))
}

// listen takes what the command says until its end.
func (r *run) listen() (wire.Exit, error) {
	for {
		kind, payload, err := r.call.next()
		if err != nil {
			return wire.Exit{}, err
		}
		switch kind {
		case wire.KindStdout, wire.KindStderr:
			s := r.sinks[kind]
			if s == nil || !s.add(payload) {
				return wire.Exit{}, fmt.Errorf("the sandbox broke the protocol: more output than was asked for")
			}
		case wire.KindCredit:
			stream, n, err := wire.ParseCredit(payload)
			if err != nil {
				return wire.Exit{}, err
			}
			if stream == wire.KindStdin && r.source != nil {
				r.source.credit(n)
			}
		case wire.KindCloseStdin:
			if r.source != nil {
				r.source.stop()
			}
		case wire.KindExit:
			var exit wire.Exit
			return exit, exit.Decode(payload)
		default:
			return wire.Exit{}, fmt.Errorf("the sandbox broke the protocol: frame %d", kind)
		}
	}
}

// maxSignal is Linux's last; what is not one is not sent.
const maxSignal = 64

// relay passes on signals and sizes.
func (r *run) relay(cmd *Command) {
	for {
		select {
		case <-r.done:
			return
		case sig, ok := <-cmd.Signals:
			if !ok {
				cmd.Signals = nil
				continue
			}
			if n := linux.Signal(sig); n > 0 && n <= maxSignal {
				r.send(wire.KindSignal, []byte{byte(n)})
			}
		case _, ok := <-cmd.Resized:
			if !ok {
				cmd.Resized = nil
				continue
			}
			r.sendMu.Lock()
			r.call.Write(r.resize(true)) //nolint:errcheck // whoever listens notices
			r.sendMu.Unlock()
		}
	}
}

// drain waits until the writers have taken everything. Once ctx has ended,
// they have the grace for it.
func (r *run) drain(ctx context.Context) error {
	for _, s := range r.sinks {
		s.end()
	}
	for _, s := range r.sinks {
		select {
		case <-s.done:
		case <-r.killed:
			for _, s := range r.sinks {
				s.giveUp()
			}
			return context.Cause(ctx)
		}
	}
	return nil
}
