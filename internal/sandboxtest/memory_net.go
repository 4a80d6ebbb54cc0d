package sandboxtest

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/loopback"
	"github.com/hanzoai/sandbox/sandbox"
)

// DialContext implements sandbox.Dialer.
func (m *Memory) DialContext(ctx context.Context, id, network, address string) (net.Conn, error) {
	u, err := m.use("dial", id)
	if err != nil {
		return nil, err
	}
	defer u.done()
	c, err := u.dial(ctx, network, address)
	if err != nil {
		return nil, &sandbox.Error{Op: "dial", ID: id, Err: err}
	}
	return c, nil
}

// Ports implements sandbox.PortLister.
func (m *Memory) Ports(_ context.Context, id string) ([]int, error) {
	u, err := m.use("ports", id)
	if err != nil {
		return nil, err
	}
	defer u.done()
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.listeners)), nil
}

func (b *box) dial(ctx context.Context, network, address string) (net.Conn, error) {
	port, err := loopback.Port(network, address)
	if err != nil {
		return nil, errors.Join(sandbox.ErrInvalid, err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b.mu.Lock()
	l := b.listeners[port]
	b.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: network, Addr: loopbackAddr(port), Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	client, server := connect(l.proc.ctx, port)
	err = refused
	select {
	case l.backlog <- server:
		client.stop = b.hold()
		return client, nil
	case <-l.closed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(err, server.Close())
}

func loopbackAddr(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

// Listen listens on a port of the sandbox's loopback. The listener ends with
// the program, as do its connections.
func (p *Proc) Listen(port int) (net.Listener, error) {
	fail := func(err error) (net.Listener, error) {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: loopbackAddr(port), Err: err}
	}
	if port < 1 || port > 65535 {
		return fail(syscall.EINVAL)
	}
	b := p.job.box
	l := &listener{proc: p, port: port, backlog: make(chan net.Conn), closed: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners[port] != nil {
		return fail(syscall.EADDRINUSE)
	}
	b.listeners[port] = l
	context.AfterFunc(p.ctx, func() { l.Close() })
	return l, nil
}

type listener struct {
	proc    *Proc
	port    int
	backlog chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		b := l.proc.job.box
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, l.port)
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return loopbackAddr(l.port) }

// A conn is one end of a connection. Each direction is a pipe of its own, so
// that it can end by itself; neither holds more than is being written.
type conn struct {
	in, out       net.Conn
	local, remote net.Addr
	stop          func() // of what ends the connection with the server, or of the use that it is
}

// connect returns the two ends of a connection, of which the server's ends with
// its program.
func connect(ctx context.Context, port int) (client, server *conn) {
	toServer, fromClient := net.Pipe()
	toClient, fromServer := net.Pipe()
	client = &conn{in: toClient, out: fromClient, local: loopbackAddr(0), remote: loopbackAddr(port)}
	server = &conn{in: toServer, out: fromServer, local: loopbackAddr(port), remote: loopbackAddr(0)}
	unwatch := context.AfterFunc(ctx, func() {
		server.in.Close()
		server.out.Close()
	})
	server.stop = func() { unwatch() }
	return client, server
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.Write(p) }

// CloseWrite tells the other end that no more will come.
func (c *conn) CloseWrite() error { return c.out.Close() }

func (c *conn) Close() error {
	c.stop()
	return errors.Join(c.in.Close(), c.out.Close())
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
