package server_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A cutter passes on what goes to a server, and hangs up after so many bytes
// of an answer.
type cutter struct {
	net.Listener
	to string

	mu    sync.Mutex
	left  int // less than 0 is no limit
	conns []net.Conn
}

func newCutter(t *testing.T, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: to, left: -1}
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			conn.Close()
		}
		c.mu.Unlock()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.conns = append(c.conns, conn)
			c.mu.Unlock()
			all.Go(func() { c.pass(conn) })
		}
	})
	return c
}

func (c *cutter) cutAfter(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = n
}

func (c *cutter) pass(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	var requests sync.WaitGroup
	requests.Go(func() {
		io.Copy(far, near)
		far.Close()
	})
	defer requests.Wait()
	defer near.Close()
	buf := make([]byte, 1<<10)
	for {
		n, err := far.Read(buf)
		if n > 0 && !c.forward(near, buf[:n]) || err != nil {
			return
		}
	}
}

func (c *cutter) forward(near net.Conn, p []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cut := c.left >= 0 && len(p) >= c.left
	if cut {
		p, c.left = p[:c.left], 0
	} else if c.left > 0 {
		c.left -= len(p)
	}
	_, err := near.Write(p)
	return err == nil && !cut
}

// TestCut breaks connections off in the middle of an answer. What was cut is
// never taken for a success, nor a part for the whole.
func TestCut(t *testing.T) {
	is := is.New(t)
	keys := keyring{}
	s := start(t, server.Config{Sandboxes: newMemory(t).For, Keys: keys})
	c := newCutter(t, s.Listener.Addr().String())
	r, err := client.New("http://"+c.Addr().String(), client.Config{Key: keys.add("acme", "ada", false)})
	is.NoErr(err)
	sb, err := r.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	text := strings.Repeat("0123456789abcdef", 4<<10)
	is.NoErr(sb.WriteFile(t.Context(), "large", strings.NewReader(text), 0o644))
	for _, n := range []int{0, 20, 1000, 30_000} {
		for name, call := range map[string]func() error{
			"command": func() error {
				_, err := sb.Command("cat", "large").Output(t.Context())
				return err
			},
			"file": func() error {
				_, err := fs.ReadFile(sb.FS(t.Context()), "large")
				return err
			},
			"value": func() error {
				_, err := sb.Info(t.Context())
				return err
			},
		} {
			c.cutAfter(n)
			err := call()
			c.cutAfter(-1)
			if name == "value" && n >= 1000 {
				continue // it is shorter
			}
			if err == nil {
				t.Errorf("%s, cut after %d bytes, is a success", name, n)
			}
			if e, ok := errors.AsType[*sandbox.ExitError](err); ok && e.Cause == sandbox.CauseExit {
				t.Errorf("%s, cut after %d bytes, has an end of its own: %v", name, n, err)
			}
		}
	}
}
