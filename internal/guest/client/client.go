// Package client is the host's side of the protocol that the init of a
// sandbox speaks. It trusts nothing that comes from there: what it reads is
// bounded, and every call ends with its context.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// replyTimeout bounds an operation that the init answers at once, for callers
// whose context has no deadline.
const replyTimeout = 30 * time.Second

// ErrLost says that the connection to the init broke: most likely the sandbox
// has ended.
var ErrLost = errors.New("connection to the sandbox lost")

// A Client speaks to one init. It is safe for concurrent use.
type Client struct {
	// Dial opens a connection to the init.
	Dial func(ctx context.Context) (net.Conn, error)
	// Bounds are told to the init by Watch.
	Bounds wire.Bounds
}

// A call is one operation under way.
type call struct {
	net.Conn
	in   *wire.Reader
	ctx  context.Context //nolint:containedctx // it lives as long as the call
	stop func() bool
}

// start opens a connection and sends the request. The call's reads and writes
// end with ctx.
func (c *Client) start(ctx context.Context, r *wire.Request) (*call, error) {
	payload := r.Append(nil)
	if len(payload) > wire.MaxRequest {
		return nil, fmt.Errorf("request of %d bytes exceeds %d: %w", len(payload), wire.MaxRequest, fs.ErrInvalid)
	}
	frame := wire.AppendFrame(nil, wire.KindRequest, payload)
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, dialFailure(ctx, err)
	}
	l := &call{Conn: conn, in: wire.NewReader(conn), ctx: ctx}
	l.stop = context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	if _, err := conn.Write(frame); err != nil {
		defer l.Close()
		return nil, l.failure(err)
	}
	return l, nil
}

// dialFailure says why there is no connection. A dialer notices a deadline on
// its own clock, a moment before the context does; and the socket's path is
// nobody's business.
func dialFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.DeadlineExceeded
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// release frees the call from its context; what ends it from now on is up to
// the caller.
func (l *call) release() error {
	if !l.stop() {
		return context.Cause(l.ctx)
	}
	l.ctx = context.WithoutCancel(l.ctx)
	return nil
}

// Close ends the call.
func (l *call) Close() error {
	l.stop()
	return l.Conn.Close()
}

// failure says why a read or write failed: the context's cause first.
func (l *call) failure(err error) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if errors.Is(err, wire.ErrTooLong) {
		return fmt.Errorf("the sandbox broke the protocol: %w", err)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // a connection that ends is no file that does
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// next reads a frame; one that tells of a failure becomes the error.
func (l *call) next() (wire.Kind, []byte, error) {
	kind, payload, err := l.in.Next()
	if err != nil {
		return 0, nil, l.failure(err)
	}
	if kind != wire.KindError {
		return kind, payload, nil
	}
	e := &wire.Error{}
	if err := e.Decode(payload); err != nil {
		return 0, nil, err
	}
	e.Path, e.Text = e.Path[:min(len(e.Path), maxSaid)], sayable(e.Text)
	return 0, nil, e
}

// maxSaid bounds what an error repeats of what the init said.
const maxSaid = 4 << 10

// sayable makes a sentence of the init's fit to be shown and logged.
func sayable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, s[:min(len(s), maxSaid)])
}

// expectOK reads the answer that the operation began or succeeded.
func (l *call) expectOK() ([]byte, error) {
	kind, payload, err := l.next()
	if err != nil {
		return nil, err
	}
	if kind != wire.KindOK {
		return nil, fmt.Errorf("the sandbox broke the protocol: frame %d where its answer was due", kind)
	}
	return payload, nil
}

// promptOK is expectOK for an operation that begins at once, whoever goes on
// with it for however long.
func (l *call) promptOK() ([]byte, error) {
	late := make(chan struct{})
	timer := time.AfterFunc(replyTimeout, func() {
		close(late)
		l.SetReadDeadline(time.Unix(1, 0))
	})
	b, err := l.expectOK()
	if !timer.Stop() {
		<-late
		return nil, errNoAnswer
	}
	return b, err
}

var errNoAnswer = fmt.Errorf("no answer from the sandbox within %v: %w", replyTimeout, context.DeadlineExceeded)

// ask carries out an operation that has one short answer.
func (c *Client) ask(ctx context.Context, r *wire.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, replyTimeout, errNoAnswer)
	defer cancel()
	l, err := c.start(ctx, r)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.expectOK()
}

// Ping returns when the init has answered.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.ask(ctx, &wire.Request{Op: wire.OpPing})
	return err
}

// Ports lists the TCP ports that something inside listens on, ascending.
func (c *Client) Ports(ctx context.Context) ([]uint16, error) {
	b, err := c.ask(ctx, &wire.Request{Op: wire.OpPorts})
	if err != nil {
		return nil, err
	}
	return wire.ParsePorts(b)
}

// Shed ends the command that has the most memory, and returns when it has
// ended. With commands it counts what they have left behind.
func (c *Client) Shed(ctx context.Context) (wire.Shed, error) {
	var s wire.Shed
	b, err := c.ask(ctx, &wire.Request{Op: wire.OpShed})
	if err != nil {
		return s, err
	}
	return s, s.Decode(b)
}

// A Watch is the connection by which a Runtime and an init know of each other.
type Watch struct {
	call *call
	lost chan struct{}

	moving sync.Mutex
	asked  uint64        // how many new ends the init has been told
	taken  atomic.Uint64 // how many it has taken
	took   chan struct{} // it has taken one
}

// Watch tells the init when the sandbox ends, and that it ends orphan after
// the Watch is closed or its holder dies; 0 means not because of that.
func (c *Client) Watch(ctx context.Context, end time.Time, orphan time.Duration) (*Watch, error) {
	l, err := c.start(ctx, &wire.Request{Op: wire.OpWatch, Deadline: end, Orphan: orphan, Bounds: c.Bounds})
	if err != nil {
		return nil, err
	}
	if _, err := l.promptOK(); err != nil {
		l.Close()
		return nil, err
	}
	if err := l.release(); err != nil {
		l.Close()
		return nil, err
	}
	w := &Watch{call: l, lost: make(chan struct{}), took: make(chan struct{}, 1)}
	go w.listen()
	return w, nil
}

func (w *Watch) listen() {
	defer close(w.lost)
	for {
		kind, _, err := w.call.in.Next()
		if err != nil {
			return
		}
		if kind != wire.KindOK {
			continue
		}
		w.taken.Add(1)
		select {
		case w.took <- struct{}{}:
		default:
		}
	}
}

// Move moves the end of the sandbox and returns when the init has taken it. An
// init that has begun to end the sandbox does not.
func (w *Watch) Move(ctx context.Context, end time.Time) error {
	w.moving.Lock()
	defer w.moving.Unlock()
	r := wire.Request{Op: wire.OpWatch, Deadline: end}
	w.asked++
	if _, err := w.call.Write(wire.AppendFrame(nil, wire.KindRequest, r.Append(nil))); err != nil {
		return w.call.failure(err)
	}
	for w.taken.Load() < w.asked { // there may be answers to some that were given up
		select {
		case <-w.took:
		case <-w.lost:
			return ErrLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Lost is closed when the init is gone or the Watch closed.
func (w *Watch) Lost() <-chan struct{} { return w.lost }

// Close ends the watch and returns when its goroutine has.
func (w *Watch) Close() error {
	err := w.call.Close()
	<-w.lost
	return err
}

// DialPort connects to a TCP port on the sandbox's loopback interface. The
// connection outlives ctx. When it is closed, or if there is none, closed is
// called.
func (c *Client) DialPort(ctx context.Context, port uint16, closed func()) (net.Conn, error) {
	l, err := c.dialPort(ctx, port)
	if err != nil {
		closed()
		return nil, err
	}
	return &portConn{Conn: l.Conn, ahead: l.in.Buffered(), port: port, closed: sync.OnceFunc(closed)}, nil
}

func (c *Client) dialPort(ctx context.Context, port uint16) (*call, error) {
	l, err := c.start(ctx, &wire.Request{Op: wire.OpDial, Port: port})
	if err != nil {
		return nil, err
	}
	if _, err := l.promptOK(); err != nil {
		l.Close()
		return nil, err
	}
	if err := l.release(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// portConn returns first what came together with the init's answer.
type portConn struct {
	net.Conn
	ahead  []byte
	port   uint16
	closed func()
}

func (p *portConn) Close() error {
	p.closed()
	return p.Conn.Close()
}

func (p *portConn) Read(b []byte) (int, error) {
	if len(p.ahead) > 0 {
		n := copy(b, p.ahead)
		p.ahead = p.ahead[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// CloseWrite tells the server inside that no more will come.
func (p *portConn) CloseWrite() error {
	if c, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (p *portConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(p.port)}
}
