package client_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A record is a writer that may be looked at while it is written to.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// A gate is a writer that waits until it is opened.
type gate struct {
	record
	entered chan struct{} // receives when a Write begins to wait
	open    chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 100), open: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	g.entered <- struct{}{}
	<-g.open
	return g.record.Write(p)
}

// values is a writer of a type that cannot be compared.
type values []*record

func (v values) Write(p []byte) (int, error) { return v[0].Write(p) }

type function func([]byte) (int, error)

func (f function) Write(p []byte) (int, error) { return f(p) }

// TestUnaskedOutput: a stream has a writer, or no place.
func TestUnaskedOutput(t *testing.T) {
	for name, test := range map[string]struct {
		cmd  client.Command
		kind wire.Kind
	}{
		"stdout for none":   {client.Command{}, wire.KindStdout},
		"stderr for none":   {client.Command{}, wire.KindStderr},
		"stderr for stdout": {client.Command{Stdout: &record{}}, wire.KindStderr},
		"stdout for stderr": {client.Command{Stderr: &record{}}, wire.KindStdout},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c := serve(t, func(g *guest) {
				g.request()
				g.send(test.kind, "unasked")
				g.wait()
			})
			_, err := c.Exec(within(t, patience), &test.cmd)
			is.True(err != nil)
			is.True(strings.Contains(err.Error(), "more output than was asked for"))
		})
	}
	t.Run("stderr of one writer", func(t *testing.T) {
		is := is.New(t)
		both := &record{}
		c := serve(t, func(g *guest) { g.request(); g.send(wire.KindStderr, "unasked"); g.wait() })
		_, err := c.Exec(within(t, patience), &client.Command{Stdout: both, Stderr: both})
		is.True(err != nil)
		is.Equal(both.String(), "")
	})
}

// TestLargeOutput: an init that keeps within the window gets credit until all
// is through.
func TestLargeOutput(t *testing.T) {
	is := is.New(t)
	const total = 5*wire.Window + 123
	overdrawn := make(chan bool, 1)
	c := serve(t, func(g *guest) {
		g.request()
		room, left, credit := wire.Window, total, 0
		part := strings.Repeat("x", 100_000)
		for left > 0 {
			n := min(room, left, len(part))
			if n == 0 {
				p, ok := g.hear(wire.KindCredit)
				if !ok {
					return
				}
				stream, n, err := wire.ParseCredit([]byte(p))
				if err != nil || stream != wire.KindStdout {
					t.Errorf("credit %q: %v", p, err)
				}
				room, credit = room+n, credit+n
				continue
			}
			g.send(wire.KindStdout, part[:n])
			room, left = room-n, left-n
		}
		overdrawn <- credit > total
		g.exit(wire.Exit{})
	})
	var out bytes.Buffer
	_, err := c.Exec(within(t, patience), &client.Command{Stdout: &out})
	is.NoErr(err)
	is.Equal(out.Len(), total)
	is.True(!<-overdrawn) // there was no more credit than there was output
}

func TestOddCredits(t *testing.T) {
	for name, payload := range map[string]string{
		"more than a window": string(wire.Credit(wire.KindStdin, wire.Window+1)),
		"2^63-1":             string(wire.Credit(wire.KindStdin, math.MaxInt64)),
		"2^64-1":             string(wire.Credit(wire.KindStdin, -1)),
		"no number":          string([]byte{byte(wire.KindStdin)}),
		"nothing":            "",
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c := serve(t, func(g *guest) { g.request(); g.send(wire.KindCredit, payload); g.wait() })
			ctx := within(t, patience)
			_, err := c.Exec(ctx, &client.Command{Stdin: strings.NewReader("in")})
			is.True(err != nil)
			is.NoErr(ctx.Err())
		})
	}
	t.Run("for nobody", func(t *testing.T) {
		is := is.New(t)
		c := serve(t, func(g *guest) {
			g.request()
			for _, kind := range []wire.Kind{wire.KindStdin, wire.KindStdout, 0, 255} {
				g.raw(wire.AppendFrame(nil, wire.KindCredit, wire.Credit(kind, wire.Window)))
			}
			g.send(wire.KindCloseStdin, "")
			g.exit(wire.Exit{Code: 3})
		})
		exit, err := c.Exec(within(t, patience), &client.Command{})
		is.NoErr(err)
		is.Equal(exit.Code, 3)
	})
}

// TestFailingWriter: the command finds its pipe closed, and its end is told.
func TestFailingWriter(t *testing.T) {
	full := errors.New("full")
	for name, test := range map[string]struct {
		writer io.Writer
		want   error
	}{
		"error":       {function(func(p []byte) (int, error) { return 0, full }), full},
		"late error":  {function(func(p []byte) (int, error) { return len(p), full }), full},
		"short write": {function(func(p []byte) (int, error) { return len(p) - 1, nil }), io.ErrShortWrite},
	} {
		for _, kind := range []wire.Kind{wire.KindStdout, wire.KindStderr} {
			t.Run(name, func(t *testing.T) {
				is := is.New(t)
				closed := make(chan string, 1)
				c := serve(t, func(g *guest) {
					g.request()
					g.send(kind, "output")
					p, _ := g.hear(wire.KindClose)
					closed <- p
					g.send(kind, "what was already on its way")
					g.exit(wire.Exit{Signal: syscall.SIGPIPE})
				})
				cmd := &client.Command{Stdout: test.writer}
				if kind == wire.KindStderr {
					cmd = &client.Command{Stderr: test.writer}
				}
				exit, err := c.Exec(within(t, patience), cmd)
				s, ok := errors.AsType[*client.StreamError](err)
				is.True(ok)
				is.Equal(s.Err, test.want)
				is.True(errors.Is(err, test.want))
				is.Equal(exit, wire.Exit{Signal: syscall.SIGPIPE}) // which is valid
				is.Equal(<-closed, string([]byte{byte(kind)}))     // the stream that closed
			})
		}
	}
}

// TestFailingWriterIsNotAsked again once it has failed, but its stream flows
// on so that the command can end.
func TestFailingWriterIsNotAsked(t *testing.T) {
	is := is.New(t)
	const total = 3 * wire.Window
	calls := 0
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindStdout, "first")
		g.hear(wire.KindClose)
		room := wire.Window - 5
		for left := total; left > 0; {
			for room == 0 {
				p, ok := g.hear(wire.KindCredit)
				if !ok {
					return
				}
				_, n, _ := wire.ParseCredit([]byte(p))
				room += n
			}
			n := min(room, left, wire.MaxData)
			g.send(wire.KindStdout, strings.Repeat("x", n))
			room, left = room-n, left-n
		}
		g.exit(wire.Exit{})
	})
	_, err := c.Exec(within(t, patience), &client.Command{Stdout: function(func([]byte) (int, error) {
		calls++
		return 0, io.ErrClosedPipe
	})})
	is.True(errors.Is(err, io.ErrClosedPipe))
	is.Equal(calls, 1)
}

// TestFailingStdin: the command gets what there was, and then the end.
func TestFailingStdin(t *testing.T) {
	broken := errors.New("broken")
	for _, want := range []error{broken, io.ErrUnexpectedEOF} {
		is := is.New(t)
		got := make(chan string, 1)
		c := serve(t, func(g *guest) {
			g.request()
			in, _ := g.hear(wire.KindStdin)
			_, ok := g.hear(wire.KindCloseStdin)
			if ok {
				got <- in
			}
			g.exit(wire.Exit{Code: 2})
		})
		exit, err := c.Exec(within(t, patience), &client.Command{Stdin: io.MultiReader(strings.NewReader("some"), failing{want})})
		s, ok := errors.AsType[*client.StreamError](err)
		is.True(ok)
		is.Equal(s.Err, want)
		is.Equal(exit.Code, 2)
		is.Equal(<-got, "some")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestCutFileAsStdin: a file of one sandbox may be the input of another.
func TestCutFileAsStdin(t *testing.T) {
	is := is.New(t)
	f := open(t, serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, stat(regular))
		g.send(wire.KindData, "half of the f")
	}))
	c := serve(t, func(g *guest) {
		g.request()
		g.hear(wire.KindCloseStdin)
		g.exit(wire.Exit{})
	})
	_, err := c.Exec(within(t, patience), &client.Command{Stdin: f})
	is.True(errors.Is(err, client.ErrLost))
}

// A stuckReader waits in Read until it is released.
type stuckReader struct {
	entered chan struct{} // receives when a Read begins
	release chan struct{}
}

func (r *stuckReader) Read(p []byte) (int, error) {
	r.entered <- struct{}{}
	<-r.release
	return copy(p, "too late"), nil
}

// TestBlockedStdin: a Read that cannot be called back holds up nothing but its
// own goroutine, and is the last.
func TestBlockedStdin(t *testing.T) {
	is := is.New(t)
	in := &stuckReader{entered: make(chan struct{}, 10), release: make(chan struct{})}
	c := serve(t, func(g *guest) {
		g.request()
		<-in.entered
		g.exit(wire.Exit{Code: 4})
		g.wait()
	})
	exit, err := c.Exec(within(t, patience), &client.Command{Stdin: in})
	is.NoErr(err)
	is.Equal(exit.Code, 4)
	close(in.release)
	t.Cleanup(func() { is.Equal(len(in.entered), 0) }) // no further Read, once the goroutine has ended
}
