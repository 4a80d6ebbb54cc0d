package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/coder/websocket"

	guest "github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/linux"
	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/internal/loopback"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/internal/socket"
	"github.com/hanzoai/sandbox/sandbox"
)

// Exec implements sandbox.Driver. The command has a socket of its own, on
// which the protocol is the one that a Runtime speaks with the init inside.
func (r *Remote) Exec(ctx context.Context, id string, p *sandbox.Process) (sandbox.ExitStatus, error) {
	if err := checkID(id); err != nil {
		return sandbox.ExitStatus{}, opError("exec", id, err)
	}
	if r.plain.Load() {
		return r.execPlain(ctx, id, p)
	}
	conn, err := r.socket(ctx, id, "exec/ws")
	if errors.Is(err, errors.ErrUnsupported) {
		r.plain.Store(true)
		return r.execPlain(ctx, id, p)
	}
	if err != nil {
		return sandbox.ExitStatus{}, opError("exec", id, err)
	}
	init := guest.Client{Dial: func(context.Context) (net.Conn, error) { return conn, nil }}
	exit, err := init.Exec(ctx, command(p))
	if err == nil {
		return statusOf(exit), nil
	}
	status, err := failed(ctx, exit, err)
	return status, opError2("exec", id, err)
}

// opError2 leaves alone what is the program's or the caller's own.
func opError2(op, id string, err error) error {
	if p, ok := errors.AsType[*callError](err); ok {
		return opError(op, id, p.error)
	}
	return err
}

// A callError is a call that failed.
type callError struct{ error }

func command(p *sandbox.Process) *guest.Command {
	c := &guest.Command{
		Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Signals: p.Signals,
		Request: wire.Request{
			Argv: p.Args, Env: p.Env, Dir: p.Dir, UID: p.User.UID, GID: p.User.GID, WaitDelay: p.WaitDelay,
		},
	}
	for _, l := range p.Limits {
		c.Limits = append(c.Limits, wire.Limit(l))
	}
	if t := p.Terminal; t != nil {
		c.Terminal = true
		c.Rows, c.Cols = t.Size()
		c.Size, c.Resized = t.Size, t.Resized()
	}
	return c
}

// failed sorts out what a command's failing socket means.
func failed(ctx context.Context, exit wire.Exit, err error) (sandbox.ExitStatus, error) {
	said, ok := errors.AsType[*wire.Error](err)
	if ok && said.Phase == wire.PhaseStart {
		return sandbox.ExitStatus{}, &sandbox.StartError{Path: said.Path, Err: startCause(said)}
	}
	if _, ok := errors.AsType[*guest.StreamError](err); ok {
		return statusOf(exit), errors.Unwrap(err)
	}
	if ctx.Err() != nil {
		return cutStatus(causeOf(context.Cause(ctx))), nil
	}
	if said != nil {
		if f, ok := socket.FailureOf(said); ok && f.Problem != nil {
			return sandbox.ExitStatus{}, &callError{(&problem.Error{Details: *f.Problem}).Sentinel()}
		} else if ok {
			return cutStatus(f.Cause), nil
		}
	}
	if errors.Is(err, guest.ErrLost) { // the sandbox may well live on
		return cutStatus(sandbox.CauseServer), nil
	}
	return sandbox.ExitStatus{}, &callError{err}
}

func startCause(e *wire.Error) error {
	if e.Text != "" {
		return &startTextError{e.Text, e.Errno}
	}
	return e.Errno
}

// A startTextError is a server's own words for a system error.
type startTextError struct {
	text  string
	errno syscall.Errno
}

func (s *startTextError) Error() string { return s.text }
func (s *startTextError) Unwrap() error { return s.errno }

func causeOf(err error) sandbox.Cause {
	if errors.Is(err, sandbox.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return sandbox.CauseTimeout
	}
	return sandbox.CauseKilled
}

// cutStatus is the status of a command that was cut short.
func cutStatus(cause sandbox.Cause) sandbox.ExitStatus {
	return sandbox.ExitStatus{Cause: cause, Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL}
}

func statusOf(e wire.Exit) sandbox.ExitStatus {
	if e.Signal != 0 {
		return sandbox.ExitStatus{Cause: sandbox.CauseSignal, Code: 128 + linux.Signal(e.Signal), Signal: e.Signal}
	}
	return sandbox.ExitStatus{Cause: sandbox.CauseExit, Code: e.Code}
}

// DialContext implements sandbox.Dialer.
func (r *Remote) DialContext(ctx context.Context, id, network, address string) (net.Conn, error) {
	if err := checkID(id); err != nil {
		return nil, opError("dial", id, err)
	}
	port, err := loopback.Port(network, address)
	if err != nil {
		return nil, opError("dial", id, fmt.Errorf("%w: %w", sandbox.ErrInvalid, err))
	}
	conn, err := r.socket(ctx, id, "dial/"+strconv.Itoa(port))
	if err != nil {
		return nil, opError("dial", id, err)
	}
	return &portConn{conn, port}, nil
}

// A portConn tells the address that was dialled.
type portConn struct {
	*socket.Conn
	port int
}

func (c *portConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: c.port}
}

// socket opens a WebSocket of a sandbox's. It outlives ctx.
func (r *Remote) socket(ctx context.Context, id, path string) (*socket.Conn, error) {
	u := *r.base.JoinPath("v1", "sandbox", id, path)
	header := http.Header{}
	if r.key != "" {
		header.Set("Authorization", "Bearer "+r.key)
	}
	ws, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: r.http, HTTPHeader: header})
	switch {
	case err == nil:
		return socket.New(ws), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case resp != nil && resp.StatusCode/100 > 2:
		return nil, extension(refusal(resp))
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		resp.Body.Close()
		return nil, fmt.Errorf("the server answered %d where a socket was asked for", resp.StatusCode)
	}
	return nil, cause(ctx, err)
}
