package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// Ports of the tests: high enough for any user, low enough for any system not
// to give them away itself.
const (
	portA    = 7001
	portB    = 7002
	portNone = 7003
)

func (c Contract) ports(t *testing.T) {
	sb := c.lease(t)
	_, dials := c.Sandboxes.(sandbox.Dialer)
	_, lists := c.Sandboxes.(sandbox.PortLister)
	if !dials {
		t.Run("no Dialer", func(t *testing.T) {
			is := is.New(t)
			_, err := sb.DialContext(bounded(t), "tcp", "localhost:80")
			is.True(errors.Is(err, errors.ErrUnsupported))
		})
	}
	if !lists {
		t.Run("no PortLister", func(t *testing.T) {
			is := is.New(t)
			_, err := sb.Ports(bounded(t))
			is.True(errors.Is(err, errors.ErrUnsupported))
		})
	}
	if dials {
		dialCases.run(t, sb)
		t.Run("server", func(t *testing.T) {
			c.listen(t, sb, portA)
			serverCases.run(t, sb)
		})
	}
	if lists {
		t.Run("Ports", func(t *testing.T) { c.portList(t, sb) })
	}
	if dials && lists {
		t.Run("end of a server", func(t *testing.T) { c.serverEnds(t, sb) })
	}
}

// listen starts a server that ends with the test, or by the returned function.
func (c Contract) listen(t *testing.T, sb *sandbox.Sandbox, port int) (end func()) {
	t.Helper()
	listen := c.Listen
	if listen == nil {
		listen = func(_ *testing.T, sb *sandbox.Sandbox, port int) *sandbox.Cmd {
			return sb.Command("listen", strconv.Itoa(port))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := start(ctx, t, listen(t, sb, port))
	end = sync.OnceFunc(func() {
		cancel()
		err := await(t, limit, r.done)
		if !errors.Is(err, context.Canceled) && !errors.Is(err, sandbox.ErrEnded) && !errors.Is(err, sandbox.ErrConflict) {
			t.Errorf("the server on port %d ended by itself: %v", port, err)
		}
	})
	t.Cleanup(end)
	return end
}

// dialCases need no server.
var dialCases = cases{
	{"port that nobody listens on", dialNone},
	{"address that cannot be right", dialInvalid},
	{"dial in a context that has ended", dialEnded},
}

func dialNone(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	for _, address := range []string{"localhost:7003", "127.0.0.1:7003", "[::1]:7003"} {
		err := within(t, soon, func() error {
			_, err := sb.DialContext(bounded(t), "tcp", address)
			return err
		})
		is.True(errors.Is(err, syscall.ECONNREFUSED))
	}
}

func dialInvalid(t *testing.T, sb *sandbox.Sandbox) {
	for _, a := range [][2]string{
		{"udp", "localhost:80"},
		{"unix", "/run/x"},
		{"", "localhost:80"},
		{"tcp", ""},
		{"tcp", "localhost"},
		{"tcp", "localhost:"},
		{"tcp", "localhost:0"},
		{"tcp", "localhost:65536"},
		{"tcp", "localhost:-1"},
		{"tcp", "localhost:http"},
		{"tcp", "192.0.2.1:80"},
		{"tcp", "example.com:80"},
		{"tcp", "::1:80"},
	} {
		t.Run(a[0]+" "+a[1], func(t *testing.T) {
			is := is.New(t)
			_, err := sb.DialContext(bounded(t), a[0], a[1])
			is.True(errors.Is(err, sandbox.ErrInvalid))
		})
	}
}

func dialEnded(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sb.DialContext(ctx, "tcp", "localhost:7003")
	is.True(errors.Is(err, context.Canceled))
}

// serverCases find an echo server on portA.
var serverCases = cases{
	{"echo", echo},
	{"half-close", halfClose},
	{"every byte of a connection", bulk},
	{"connections at once", connectionsAtOnce},
	{"the context of the dial", dialContext},
	{"deadline of a connection", connDeadline},
}

// A halfConn is what DialContext returns: as a *net.TCPConn it can end one
// direction alone.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

func dial(t *testing.T, sb *sandbox.Sandbox) halfConn {
	t.Helper()
	conn, err := sb.DialContext(bounded(t), "tcp", "localhost:"+strconv.Itoa(portA))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	half, ok := conn.(halfConn)
	if !ok {
		t.Fatalf("%T has no CloseWrite", conn)
	}
	return half
}

func echo(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	for _, a := range [][2]string{{"tcp", "localhost:7001"}, {"tcp4", "127.0.0.1:7001"}, {"tcp", "127.8.8.8:7001"}} {
		conn, err := sb.DialContext(bounded(t), a[0], a[1])
		is.NoErr(err)
		defer conn.Close()
		is.NoErr(conn.SetDeadline(time.Now().Add(limit)))
		is.NoErr(says(conn, "hello"))
		is.NoErr(says(conn, "again"))
		is.NoErr(conn.Close())
		_, err = conn.Write([]byte("x"))
		is.True(err != nil)
	}
}

// says sends a word and wants it back.
func says(conn net.Conn, word string) error {
	if _, err := io.WriteString(conn, word); err != nil {
		return err
	}
	got := make([]byte, len(word))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != word {
		return fmt.Errorf("%q came back as %q", word, got)
	}
	return nil
}

func halfClose(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	conn := dial(t, sb)
	_, err := io.WriteString(conn, "last words")
	is.NoErr(err)
	is.NoErr(conn.CloseWrite())
	b, err := io.ReadAll(conn) // the server answers after our end, then ends too
	is.NoErr(err)
	is.Equal(string(b), "last words")
	_, err = io.WriteString(conn, "more")
	is.True(err != nil)
}

func bulk(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	conn := dial(t, sb)
	want := pattern(3<<20+1, 7)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, want)
		sent <- errors.Join(err, conn.CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	is.NoErr(err)
	is.NoErr(<-sent)
	is.True(string(got) == want)
}

func connectionsAtOnce(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	conns := make([]net.Conn, 10)
	for i := range conns {
		conns[i] = dial(t, sb)
	}
	for i, conn := range conns {
		is.NoErr(says(conn, fmt.Sprint("to ", i)))
	}
}

func dialContext(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := sb.DialContext(ctx, "tcp", "localhost:7001")
	is.NoErr(err)
	defer conn.Close()
	cancel()
	is.NoErr(conn.SetDeadline(time.Now().Add(limit)))
	is.NoErr(says(conn, "still here")) // it bounds the dial, not the connection
}

func connDeadline(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	conn := dial(t, sb)
	is.NoErr(conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)))
	err := within(t, limit, func() error {
		_, err := conn.Read(make([]byte, 1))
		return err
	})
	is.True(errors.Is(err, os.ErrDeadlineExceeded))
	is.NoErr(conn.SetReadDeadline(time.Now().Add(limit)))
	is.NoErr(says(conn, "later"))
}

func (c Contract) portList(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	before, err := sb.Ports(bounded(t))
	is.NoErr(err)
	is.Equal(len(before), 0)
	c.listen(t, sb, portB)
	c.listen(t, sb, portA)
	ports, err := sb.Ports(bounded(t))
	is.NoErr(err)
	is.Equal(ports, []int{portA, portB}) // ascending
}

func (c Contract) serverEnds(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	end := c.listen(t, sb, portA)
	conn := dial(t, sb)
	is.NoErr(says(conn, "hello"))
	end()
	_, err := conn.Read(make([]byte, 1))
	is.True(err != nil)                              // its connections end
	is.True(!errors.Is(err, os.ErrDeadlineExceeded)) // at once
	_, err = sb.DialContext(bounded(t), "tcp", "localhost:7001")
	is.True(errors.Is(err, syscall.ECONNREFUSED)) // there is no new one
	ports, err := sb.Ports(bounded(t))
	is.NoErr(err)
	is.Equal(len(ports), 0) // and the port is free
}
