package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

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

// TestSizeBeforeKeys has what is typed after a change of size arrive after it,
// also if the change itself is still to be told.
func TestSizeBeforeKeys(t *testing.T) {
	is := is.New(t)
	heard := make(chan string, 1)
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindCredit, string(wire.Credit(wire.KindStdin, 16)))
		p, _ := g.hear(wire.KindResize)
		heard <- p
		g.hear(wire.KindStdin)
		g.exit(wire.Exit{})
	})
	cmd := &client.Command{Stdin: strings.NewReader("in"), Size: func() (rows, cols uint16) { return 30, 90 }}
	cmd.Rows, cmd.Cols = 24, 80
	_, err := c.Exec(within(t, patience), cmd)
	is.NoErr(err)
	is.Equal(<-heard, string(wire.Size(30, 90)))
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

// TestOtherFrames: what a command has no use for is no part of the protocol.
func TestOtherFrames(t *testing.T) {
	for _, kind := range []wire.Kind{0, wire.KindRequest, wire.KindOK, wire.KindData, wire.KindEnd, wire.KindStdin, wire.KindKill, 200} {
		is := is.New(t)
		c := serve(t, func(g *guest) { g.request(); g.send(kind, ""); g.wait() })
		ctx := within(t, patience)
		_, err := c.Exec(ctx, &client.Command{Stdout: &record{}})
		is.True(err != nil)
		is.NoErr(ctx.Err())
	}
}
