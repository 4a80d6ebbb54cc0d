package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWatch(t *testing.T) {
	is := is.New(t)
	end := time.Now().Add(time.Hour)
	asked, leave := make(chan wire.Request, 1), make(chan struct{})
	c := serve(t, func(g *guest) {
		asked <- g.request()
		g.send(wire.KindOK, "")
		g.send(wire.KindOK, "what is said later means nothing")
		<-leave
	})
	ctx, cancel := context.WithCancel(t.Context())
	w, err := c.Watch(ctx, end, time.Minute)
	is.NoErr(err)
	defer w.Close()
	r := <-asked
	is.Equal(r.Op, wire.OpWatch)
	is.True(r.Deadline.Equal(end))
	is.Equal(r.Orphan, time.Minute)
	cancel()
	is.True(!isClosed(w.Lost())) // the watch outlives the context it was made with
	close(leave)
	is.True(received(w.Lost())) // and ends with the init
}

func TestWatchClose(t *testing.T) {
	is := is.New(t)
	gone := make(chan struct{})
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, "")
		g.wait()
		close(gone)
	})
	w, err := c.Watch(within(t, patience), time.Time{}, 0)
	is.NoErr(err)
	is.NoErr(w.Close())
	is.True(isClosed(w.Lost())) // Close waits for its goroutine
	is.True(received(gone))     // the init sees it
}

// cutAfterReply ends a context at the worst moment: the answer has been read,
// and the call does not know yet.
func cutAfterReply(c *client.Client, cancel func()) *client.Client {
	return &client.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := c.Dial(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		return &cutConn{Conn: conn, cancel: cancel, cut: make(chan struct{})}, nil
	}}
}

// A cutConn calls cancel once something has been read, and waits until that
// has taken effect.
type cutConn struct {
	net.Conn
	cancel func()
	cut    chan struct{}
	done   bool
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.done {
		c.done = true
		c.cancel()
		<-c.cut
	}
	return n, err
}

func (c *cutConn) SetDeadline(at time.Time) error {
	err := c.Conn.SetDeadline(at)
	close(c.cut)
	return err
}

func TestWatchThatComesTooLate(t *testing.T) {
	is := is.New(t)
	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, "")
		g.wait()
	})
	w, err := cutAfterReply(c, func() { cancel(cause) }).Watch(ctx, time.Time{}, 0)
	if err == nil {
		defer w.Close()
	}
	is.True(errors.Is(err, cause))
}

func TestDialThatComesTooLate(t *testing.T) {
	is := is.New(t)
	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, "")
		g.wait()
	})
	_, err := cutAfterReply(c, func() { cancel(cause) }).DialPort(ctx, 80, nothing)
	is.True(errors.Is(err, cause))
}

// TestDialPort: the connection carries raw bytes, the first of which may come
// with the answer, and ends in each direction by itself.
func TestDialPort(t *testing.T) {
	is := is.New(t)
	ahead := strings.Repeat("early ", 2000)
	asked := make(chan wire.Request, 1)
	c := serve(t, func(g *guest) {
		asked <- g.request()
		g.raw(append(wire.AppendFrame(nil, wire.KindOK, nil), ahead...))
		said, _ := io.ReadAll(g.Conn)
		g.raw(said)
	})
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := c.DialPort(ctx, 8080, nothing)
	is.NoErr(err)
	defer conn.Close()
	is.Equal((<-asked).Port, uint16(8080))
	is.Equal(conn.RemoteAddr().String(), "127.0.0.1:8080")
	cancel() // the connection outlives it
	_, err = conn.Write([]byte("and an echo"))
	is.NoErr(err)
	is.NoErr(conn.(interface{ CloseWrite() error }).CloseWrite())
	got, err := io.ReadAll(conn)
	is.NoErr(err)
	is.True(string(got) == ahead+"and an echo")
}

func TestDialPortRefused(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		g.request()
		g.fail(wire.Error{Errno: syscall.ECONNREFUSED})
	})
	_, err := c.DialPort(within(t, patience), 1, nothing)
	e, ok := errors.AsType[*wire.Error](err)
	is.True(ok)
	is.Equal(e.Errno, syscall.ECONNREFUSED)
}

// TestBounds are told with the watch.
func TestBounds(t *testing.T) {
	is := is.New(t)
	asked := make(chan wire.Request, 1)
	c := serve(t, func(g *guest) {
		asked <- g.request()
		g.send(wire.KindOK, "")
		g.wait()
	})
	c.Bounds = wire.Bounds{Memory: 1 << 30, Quota: 50_000, Pids: 512, AllPids: 1024}
	w, err := c.Watch(within(t, patience), time.Time{}, 0)
	is.NoErr(err)
	defer w.Close()
	is.Equal((<-asked).Bounds, c.Bounds)
}

func TestShed(t *testing.T) {
	is := is.New(t)
	answer := wire.Shed{Killed: true, Memory: 1 << 40}
	c := serve(t, func(g *guest) {
		if g.request().Op == wire.OpShed {
			g.send(wire.KindOK, string(answer.Append(nil)))
		}
	})
	got, err := c.Shed(within(t, patience))
	is.NoErr(err)
	is.Equal(got, answer)
}

// TestShedByAnOlderInit, which does not know what it is asked.
func TestShedByAnOlderInit(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		g.request()
		g.fail(wire.Error{Errno: syscall.ENOSYS, Text: "unknown operation"})
	})
	_, err := c.Shed(within(t, patience))
	e, ok := errors.AsType[*wire.Error](err)
	is.True(ok && e.Errno == syscall.ENOSYS)
}
