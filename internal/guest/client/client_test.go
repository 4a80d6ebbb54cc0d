package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// calls is everything that a Client does, to its end.
var calls = map[string]func(context.Context, *client.Client) error{
	"ping": func(ctx context.Context, c *client.Client) error { return c.Ping(ctx) },
	"ports": func(ctx context.Context, c *client.Client) error {
		_, err := c.Ports(ctx)
		return err
	},
	"stat": func(ctx context.Context, c *client.Client) error {
		_, err := c.Stat(ctx, "/f")
		return err
	},
	"lstat": func(ctx context.Context, c *client.Client) error {
		_, err := c.Lstat(ctx, "/f")
		return err
	},
	"readlink": func(ctx context.Context, c *client.Client) error {
		_, err := c.Readlink(ctx, "/f")
		return err
	},
	"mkdir":  func(ctx context.Context, c *client.Client) error { return c.Mkdir(ctx, "/f", 0o755, true) },
	"remove": func(ctx context.Context, c *client.Client) error { return c.Remove(ctx, "/f", false) },
	"readdir": func(ctx context.Context, c *client.Client) error {
		_, err := c.ReadDir(ctx, "/f")
		return err
	},
	"open": func(ctx context.Context, c *client.Client) error {
		f, err := c.Open(ctx, "/f", nothing)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.ReadAll(f)
		return err
	},
	"write": func(ctx context.Context, c *client.Client) error {
		return c.Write(ctx, "/f", strings.NewReader("data"), 0o644)
	},
	"watch": func(ctx context.Context, c *client.Client) error {
		w, err := c.Watch(ctx, time.Time{}, 0)
		if err != nil {
			return err
		}
		return w.Close()
	},
	"dial": func(ctx context.Context, c *client.Client) error {
		conn, err := c.DialPort(ctx, 80, nothing)
		if err != nil {
			return err
		}
		return conn.Close()
	},
	"exec": func(ctx context.Context, c *client.Client) error {
		_, err := c.Exec(ctx, &client.Command{Request: wire.Request{Argv: []string{"true"}}, Stdin: strings.NewReader("in")})
		return err
	},
}

// eachCall runs test for every operation.
func eachCall(t *testing.T, test func(t *testing.T, call func(context.Context, *client.Client) error)) {
	t.Helper()
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { test(t, call) })
	}
}

// TestNoAnswer: an init that says nothing holds no call beyond its context,
// and no command beyond the grace that is a part of a second.
func TestNoAnswer(t *testing.T) {
	scripts := map[string]func(*guest){
		"reads":       (*guest).wait,
		"never reads": func(g *guest) { <-g.t.Context().Done() },
		"half a frame": func(g *guest) {
			g.request()
			g.raw(header(wire.KindOK, 1))
			g.wait()
		},
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			eachCall(t, func(t *testing.T, call func(context.Context, *client.Client) error) {
				synctest.Test(t, func(t *testing.T) {
					is := is.New(t)
					ctx := within(t, 20*time.Second)
					start := time.Now()
					err := call(ctx, pipe(t, script))
					is.True(errors.Is(err, errDeadline)) // the context's cause
					took := time.Since(start)
					is.True(took >= 20*time.Second && took <= 21*time.Second)
				})
			})
		})
	}
}

// TestNoAnswerOnSocket is TestNoAnswer on a real clock and a real socket.
func TestNoAnswerOnSocket(t *testing.T) {
	eachCall(t, func(t *testing.T, call func(context.Context, *client.Client) error) {
		if name := t.Name(); strings.HasSuffix(name, "/exec") || strings.HasSuffix(name, "/write") {
			t.Skip("TestKillWhileSending and TestWriteToSilentInit wait for the grace once")
		}
		is := is.New(t)
		c := serve(t, (*guest).wait)
		start := time.Now()
		err := call(within(t, 10*time.Millisecond), c)
		is.True(errors.Is(err, errDeadline) || errors.Is(err, context.DeadlineExceeded)) // the end of the context
		is.True(time.Since(start) < 2*time.Second)
	})
}

// TestShortAnswersAreDue: what the init answers at once has a bound of its own.
func TestShortAnswersAreDue(t *testing.T) {
	for _, name := range []string{"ping", "ports", "stat", "lstat", "readlink", "mkdir", "remove"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				start := time.Now()
				err := calls[name](t.Context(), pipe(t, (*guest).wait))
				is.True(errors.Is(err, context.DeadlineExceeded))
				is.Equal(time.Since(start), 30*time.Second)
			})
		})
	}
}

// TestBrokenInit: whatever an init says instead of an answer is an error at
// once, whatever was asked.
func TestBrokenInit(t *testing.T) {
	for name, broken := range map[string]struct {
		script func(*guest)
		want   error // nil is any
		lost   bool
	}{
		"closes at once":      {func(*guest) {}, client.ErrLost, true},
		"closes when asked":   {func(g *guest) { g.request() }, client.ErrLost, true},
		"half a header":       {func(g *guest) { g.request(); g.raw(header(wire.KindOK, 0)[:3]) }, client.ErrLost, true},
		"half a frame":        {func(g *guest) { g.request(); g.raw(append(header(wire.KindOK, 9), "half"...)) }, client.ErrLost, true},
		"oversized frame":     {func(g *guest) { g.request(); g.raw(header(wire.KindOK, wire.MaxData+1)); g.wait() }, wire.ErrTooLong, false},
		"huge frame":          {func(g *guest) { g.request(); g.raw(header(wire.KindExit, 1<<32-1)); g.wait() }, wire.ErrTooLong, false},
		"oversized request":   {func(g *guest) { g.request(); g.raw(header(wire.KindRequest, wire.MaxRequest+1)); g.wait() }, wire.ErrTooLong, false},
		"another kind":        {func(g *guest) { g.request(); g.send(wire.KindStdout, "out"); g.wait() }, nil, false},
		"malformed error":     {func(g *guest) { g.request(); g.send(wire.KindError, "\x07\x7f"); g.wait() }, nil, false},
		"noise":               {func(g *guest) { g.request(); g.raw(bytes.Repeat([]byte{0xa5}, 10_000)); g.wait() }, wire.ErrTooLong, false},
		"an error of nothing": {func(g *guest) { g.request(); g.send(wire.KindError, ""); g.wait() }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			eachCall(t, func(t *testing.T, call func(context.Context, *client.Client) error) {
				is := is.New(t)
				c := serve(t, broken.script)
				ctx := within(t, patience)
				err := call(ctx, c)
				is.True(err != nil) // it is an error
				is.NoErr(ctx.Err()) // at once
				if broken.want != nil {
					is.True(errors.Is(err, broken.want))
				}
				is.Equal(errors.Is(err, client.ErrLost), broken.lost) // which says whether the sandbox may have ended
				is.True(err != io.EOF)                                // and nothing like a regular end
			})
		})
	}
}

func TestLostIsNoEndOfFile(t *testing.T) {
	eachCall(t, func(t *testing.T, call func(context.Context, *client.Client) error) {
		is := is.New(t)
		err := call(within(t, patience), serve(t, func(g *guest) { g.request() }))
		is.True(err != nil && !errors.Is(err, io.EOF))
	})
}

// TestOddErrors: what the init says of a failure is bounded by a frame.
func TestOddErrors(t *testing.T) {
	for name, e := range map[string]wire.Error{
		"huge text":  {Text: strings.Repeat("x", wire.MaxData-10)},
		"huge path":  {Errno: syscall.ENOENT, Path: strings.Repeat("/x", wire.MaxData/2-10)},
		"odd errno":  {Errno: 0xfff, Phase: 200},
		"huge errno": {Errno: 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			eachCall(t, func(t *testing.T, call func(context.Context, *client.Client) error) {
				is := is.New(t)
				c := serve(t, func(g *guest) { g.request(); g.fail(e); g.wait() })
				ctx := within(t, patience)
				err := call(ctx, c)
				is.True(err != nil)
				is.NoErr(ctx.Err())
				is.True(len(err.Error()) <= wire.MaxData+1000)
			})
		})
	}
}

// TestFailuresAreNamed: an errno comes out as package fs has it.
func TestFailuresAreNamed(t *testing.T) {
	for name, op := range map[string]string{
		"stat": "stat", "lstat": "lstat", "readlink": "readlink", "mkdir": "mkdir", "remove": "remove",
		"readdir": "readdir", "open": "open", "write": "write",
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c := serve(t, func(g *guest) {
				g.request()
				g.fail(wire.Error{Errno: syscall.ENOENT, Path: "/elsewhere", Text: "gone"})
			})
			err := calls[name](within(t, patience), c)
			p, ok := errors.AsType[*fs.PathError](err)
			is.True(ok)
			is.Equal(p.Op, op)
			is.Equal(p.Path, "/f") // the caller's name, not the init's
			is.True(errors.Is(err, fs.ErrNotExist))
			is.True(errors.Is(err, syscall.ENOENT))
		})
	}
}

func TestDialError(t *testing.T) {
	c := &client.Client{Dial: func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }}
	eachCall(t, func(t *testing.T, call func(context.Context, *client.Client) error) {
		is := is.New(t)
		is.True(errors.Is(call(t.Context(), c), syscall.ECONNREFUSED))
	})
}

func TestEndedContext(t *testing.T) {
	cause := errors.New("why")
	eachCall(t, func(t *testing.T, call func(context.Context, *client.Client) error) {
		synctest.Test(t, func(t *testing.T) {
			is := is.New(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			err := call(ctx, pipe(t, (*guest).wait))
			is.True(errors.Is(err, cause))
		})
	})
}

func TestEndedContextOnSocket(t *testing.T) {
	cause := errors.New("why")
	eachCall(t, func(t *testing.T, call func(context.Context, *client.Client) error) {
		is := is.New(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		is.True(errors.Is(call(ctx, serve(t, (*guest).wait)), cause))
	})
}

// pathFor makes an lstat request exactly so long.
func pathFor(size int) string {
	path := strings.Repeat("x", size)
	r := &wire.Request{Op: wire.OpLstat, Path: path}
	return path[:2*size-len(r.Append(nil))]
}

func TestLongRequests(t *testing.T) {
	c := serve(t, func(g *guest) {
		if r := g.request(); r.Op != 0 {
			g.send(wire.KindOK, stat(wire.Stat{Name: "x", Size: int64(len(r.Path))}))
		}
	})
	for size, fits := range map[int]bool{wire.MaxRequest - 5: true, wire.MaxRequest + 1: false} {
		is := is.New(t)
		path := pathFor(size)
		info, err := c.Lstat(within(t, patience), path)
		if !fits {
			is.True(errors.Is(err, fs.ErrInvalid)) // refused before anything is dialled
			continue
		}
		is.NoErr(err)
		is.Equal(info.Size(), int64(len(path)))
	}
}

func TestLongestRequest(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, stat(wire.Stat{Name: "x"}))
	})
	_, err := c.Lstat(within(t, patience), pathFor(wire.MaxRequest))
	is.NoErr(err)
}

func TestConcurrentUse(t *testing.T) {
	c := serve(t, func(g *guest) {
		r := g.request()
		g.send(wire.KindOK, r.Path)
	})
	var all sync.WaitGroup
	for _, path := range []string{"/a", "/b", "/c", "/d", "/e", "/f"} {
		all.Go(func() {
			for range 20 {
				if got, err := c.Readlink(t.Context(), path); got != path || err != nil {
					t.Errorf("%q: %q, %v", path, got, err)
				}
			}
		})
	}
	all.Wait()
}

func TestPorts(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, string(wire.Ports([]uint16{22, 65535})))
	})
	ports, err := c.Ports(within(t, patience))
	is.NoErr(err)
	is.Equal(ports, []uint16{22, 65535})
	c = serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, "odd")
	})
	_, err = c.Ports(within(t, patience))
	is.True(err != nil)
}

// nothing is what most tests do when something is closed.
func nothing() {}
