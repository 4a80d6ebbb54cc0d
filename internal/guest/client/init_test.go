package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// patience bounds what a test waits for. Nothing that works takes as long.
const patience = 5 * time.Second

// A guest is the other side of one connection: an init that does what a script
// tells it.
type guest struct {
	net.Conn
	t  *testing.T
	in *wire.Reader
}

func newGuest(t *testing.T, c net.Conn) *guest { return &guest{Conn: c, t: t, in: wire.NewReader(c)} }

// request reads what the host asks for.
func (g *guest) request() (r wire.Request) {
	kind, payload, err := g.in.Next()
	if err != nil {
		return r // the host has hung up: the test sees to whether it may
	}
	if err := r.Decode(payload); err != nil || kind != wire.KindRequest {
		g.t.Errorf("the first frame is of kind %d: %v", kind, err)
	}
	return r
}

// send reports whether the host is still there.
func (g *guest) send(kind wire.Kind, payload string) bool {
	return g.raw(wire.AppendFrame(nil, kind, []byte(payload)))
}

func (g *guest) raw(b []byte) bool {
	_, err := g.Write(b)
	return err == nil
}

func (g *guest) exit(e wire.Exit) bool { return g.send(wire.KindExit, string(e.Append(nil))) }

func (g *guest) fail(e wire.Error) bool { return g.send(wire.KindError, string(e.Append(nil))) }

// hear reads up to a frame of one kind and returns its payload.
func (g *guest) hear(want wire.Kind) (payload string, ok bool) {
	for {
		kind, p, err := g.in.Next()
		if err != nil {
			return "", false
		}
		if kind == want {
			return string(p), true
		}
	}
}

// wait reads on until the host hangs up.
func (g *guest) wait() { io.Copy(io.Discard, g.Conn) }

// serve returns a Client of inits that follow script, each on a connection of
// a real socket. At the end of the test the client must have hung up on all of
// them, and none of its goroutines may be left.
func serve(t *testing.T, script func(g *guest)) *client.Client {
	t.Helper()
	checkGoroutines(t)
	path := filepath.Join(t.TempDir(), "init")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var scripts sync.WaitGroup
	scripts.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			scripts.Go(func() {
				defer c.Close()
				script(newGuest(t, c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			scripts.Wait()
		}()
		if !received(done) {
			t.Errorf("the client has not hung up")
		}
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			c.Close()
		}
		<-done
	})
	return &client.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}

// pipe is serve for a synctest bubble, which checks the goroutines itself.
func pipe(t *testing.T, script func(g *guest)) *client.Client {
	return &client.Client{Dial: func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			script(newGuest(t, far))
		}()
		return near, nil
	}}
}

func received(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-time.After(patience):
		return false
	}
}

// checkGoroutines fails the test if a goroutine that it started is in package
// client after all else has been cleaned up.
func checkGoroutines(t *testing.T) {
	t.Helper()
	before := goroutines()
	t.Cleanup(func() {
		tick, late := time.NewTicker(time.Millisecond), time.After(patience)
		defer tick.Stop()
		for {
			left := goroutines()
			for id := range before {
				delete(left, id)
			}
			if len(left) == 0 {
				return
			}
			select {
			case <-tick.C:
			case <-late:
				for _, stack := range left {
					t.Errorf("left behind: %s", stack)
				}
				return
			}
		}
	})
}

// goroutines returns the stacks of those that are in package client, by id.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	found := map[string]string{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if !strings.Contains(stack, "internal/guest/client.") {
			continue
		}
		id, _, _ := strings.Cut(stack, " [")
		found[id] = stack
	}
	return found
}

// within bounds a call by a context that a working one never sees the end of.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errDeadline)
	t.Cleanup(cancel)
	return ctx
}

var errDeadline = errors.New("the test's own deadline")

func header(kind wire.Kind, n uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{byte(kind)}, n)
}

func stat(s wire.Stat) string { return string(s.Append(nil)) }
