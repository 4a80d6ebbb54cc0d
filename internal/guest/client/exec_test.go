package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

func TestExec(t *testing.T) {
	is := is.New(t)
	asked := make(chan wire.Request, 1)
	c := serve(t, func(g *guest) {
		asked <- g.request()
		in, _ := g.hear(wire.KindStdin)
		g.hear(wire.KindCloseStdin)
		g.send(wire.KindStdout, "out: "+in)
		g.send(wire.KindStderr, "err")
		g.send(wire.KindStdout, ", more")
		g.send(wire.KindStdout, "")
		g.exit(wire.Exit{Code: 7})
	})
	var stdout, stderr bytes.Buffer
	exit, err := c.Exec(within(t, patience), &client.Command{
		Request: wire.Request{Argv: []string{"prog", "arg"}, Env: []string{"A=b"}, Dir: "/d", UID: 5, GID: 6, WaitDelay: time.Second},
		Stdin:   strings.NewReader("in"), Stdout: &stdout, Stderr: &stderr,
	})
	is.NoErr(err)
	is.Equal(exit, wire.Exit{Code: 7})
	is.Equal(stdout.String(), "out: in, more") // complete when Exec returns
	is.Equal(stderr.String(), "err")
	is.Equal(<-asked, wire.Request{
		Op: wire.OpExec, Argv: []string{"prog", "arg"}, Env: []string{"A=b"}, Dir: "/d", UID: 5, GID: 6, WaitDelay: time.Second,
		Streams: wire.Stdin | wire.Stdout | wire.Stderr,
	})
}

func TestStreams(t *testing.T) {
	out, other := &record{}, &record{}
	in := strings.NewReader("")
	for name, test := range map[string]struct {
		cmd  client.Command
		want wire.Streams
	}{
		"none":                   {client.Command{}, 0},
		"stdin":                  {client.Command{Stdin: in}, wire.Stdin},
		"stdout":                 {client.Command{Stdout: out}, wire.Stdout},
		"stderr":                 {client.Command{Stderr: out}, wire.Stderr},
		"two writers":            {client.Command{Stdout: out, Stderr: other}, wire.Stdout | wire.Stderr},
		"one writer":             {client.Command{Stdout: out, Stderr: out}, wire.Stdout | wire.Merged},
		"uncomparable slices":    {client.Command{Stdout: values{out}, Stderr: values{out}}, wire.Stdout | wire.Stderr},
		"uncomparable funcs":     {client.Command{Stdout: function(out.Write), Stderr: function(out.Write)}, wire.Stdout | wire.Stderr},
		"equal structs":          {client.Command{Stdout: struct{ io.Writer }{out}, Stderr: struct{ io.Writer }{out}}, wire.Stdout | wire.Merged},
		"uncomparable in struct": {client.Command{Stdout: struct{ io.Writer }{values{out}}, Stderr: struct{ io.Writer }{values{out}}}, wire.Stdout | wire.Stderr},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			asked := make(chan wire.Request, 1)
			c := serve(t, func(g *guest) {
				r := g.request()
				asked <- r
				if r.Streams&wire.Stdout != 0 {
					g.send(wire.KindStdout, "1")
				}
				if r.Streams&wire.Stderr != 0 {
					g.send(wire.KindStderr, "2")
				}
				g.exit(wire.Exit{})
			})
			_, err := c.Exec(within(t, patience), &test.cmd)
			is.NoErr(err)
			is.Equal((<-asked).Streams, test.want)
		})
	}
}

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

func TestOddExits(t *testing.T) {
	for name, test := range map[string]struct {
		payload string
		want    wire.Exit
		fails   bool
	}{
		"nothing":         {"", wire.Exit{}, false},
		"negative code":   {string((&wire.Exit{Code: -1}).Append(nil)), wire.Exit{Code: 255}, false},
		"huge code":       {string((&wire.Exit{Code: 0x7f01}).Append(nil)), wire.Exit{Code: 1}, false},
		"huge signal":     {string((&wire.Exit{Signal: 0xf89}).Append(nil)), wire.Exit{Signal: 9}, false},
		"negative signal": {string((&wire.Exit{Signal: -1}).Append(nil)), wire.Exit{Signal: 127}, false},
		"both":            {string((&wire.Exit{Signal: 9, Code: 1}).Append(nil)), wire.Exit{Signal: 9, Code: 1}, false},
		"killed unasked":  {string((&wire.Exit{Killed: true}).Append(nil)), wire.Exit{Killed: true}, false},
		"malformed":       {"\x08\x7f", wire.Exit{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c := serve(t, func(g *guest) { g.request(); g.send(wire.KindExit, test.payload) })
			exit, err := c.Exec(within(t, patience), &client.Command{})
			is.Equal(err != nil, test.fails)
			is.Equal(exit, test.want)
		})
	}
}

func TestStartFailure(t *testing.T) {
	is := is.New(t)
	want := wire.Error{Phase: wire.PhaseStart, Errno: syscall.ENOENT, Path: "prog"}
	c := serve(t, func(g *guest) { g.request(); g.fail(want) })
	_, err := c.Exec(within(t, patience), &client.Command{Stdout: &record{}})
	e, ok := errors.AsType[*wire.Error](err)
	is.True(ok)
	is.Equal(*e, want)
}

// TestFailedExecLeavesNothing: neither a goroutine of a writer's.
func TestFailedExecLeavesNothing(t *testing.T) {
	for name, script := range map[string]func(*guest){
		"start failure": func(g *guest) { g.request(); g.fail(wire.Error{Phase: wire.PhaseStart, Errno: syscall.ENOENT}) },
		"lost":          func(g *guest) { g.request() },
		"broken protocol": func(g *guest) {
			g.request()
			g.send(wire.KindStdout, "out")
			g.raw(header(wire.KindStdout, 1<<31))
			g.wait()
		},
		"malformed exit": func(g *guest) { g.request(); g.send(wire.KindExit, "\x08\x7f"); g.wait() },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			_, err := serve(t, script).Exec(within(t, patience), &client.Command{Stdout: &record{}, Stderr: &record{}})
			is.True(err != nil)
		})
	}
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
	bug(t, "a Stdin whose error wraps io.EOF, such as a file cut with ErrLost, passes for complete")
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

func TestSignalsAndSizes(t *testing.T) {
	is := is.New(t)
	signals, resized := make(chan syscall.Signal), make(chan struct{})
	heard := make(chan string, 2)
	c := serve(t, func(g *guest) {
		g.request()
		for _, kind := range []wire.Kind{wire.KindSignal, wire.KindResize} {
			p, _ := g.hear(kind)
			heard <- p
		}
		g.exit(wire.Exit{})
	})
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(within(t, patience), &client.Command{
			Signals: signals, Resized: resized,
			Size: func() (rows, cols uint16) { return 30, 90 },
		})
		ended <- err
	}()
	signals <- syscall.SIGINT
	is.Equal(<-heard, "\x02")
	close(signals) // as after signal.Stop: sizes still pass
	resized <- struct{}{}
	is.Equal(<-heard, string(wire.Size(30, 90)))
	is.NoErr(<-ended)
}

func TestContextEndsWithRequest(t *testing.T) {
	is := is.New(t)
	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	c := serve(t, func(g *guest) {
		g.request()
		cancel(cause) // the kill has hardly a command to go to
		g.hear(wire.KindKill)
	})
	_, err := c.Exec(ctx, &client.Command{Stdin: strings.NewReader("in")})
	is.True(errors.Is(err, cause))
}
