package client_test

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// counted serves a command whose standard input it only counts.
func counted(t *testing.T) (c *client.Client, total *atomic.Int64, init func() *guest) {
	total = &atomic.Int64{}
	met := make(chan *guest, 1)
	c = pipe(t, func(g *guest) {
		g.request()
		met <- g
		for {
			kind, p, err := g.in.Next()
			if err != nil {
				return
			}
			switch kind {
			case wire.KindStdin:
				total.Add(int64(len(p)))
			case wire.KindKill:
				g.exit(wire.Exit{Killed: true})
			}
		}
	})
	return c, total, func() *guest { return <-met }
}

func credit(g *guest, n int) {
	g.raw(wire.AppendFrame(nil, wire.KindCredit, wire.Credit(wire.KindStdin, n)))
	synctest.Wait()
}

// TestStdinKeepsWithinWindow: the client sends a window, and then what it has
// credit for.
func TestStdinKeepsWithinWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		c, total, init := counted(t)
		s, cancel := start(t, c, &client.Command{Stdin: endless{}})
		g := init()
		later(time.Hour)
		want := int64(wire.Window)
		is.Equal(total.Load(), want) // without credit
		for _, n := range []int{1, 1000, 0, wire.Window} {
			credit(g, n)
			want += int64(n)
			is.Equal(total.Load(), want)
		}
		cancel()
		synctest.Wait()
		is.True(s.done)
	})
}

// TestExcessCredit: room is never more than a window.
func TestExcessCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		in, w := io.Pipe()
		c, total, init := counted(t)
		s, cancel := start(t, c, &client.Command{Stdin: io.MultiReader(in, endless{})})
		g := init()
		for range 5 {
			credit(g, wire.Window)
		}
		is.Equal(total.Load(), int64(0))
		w.Close() // now there is input without end
		synctest.Wait()
		is.Equal(total.Load(), int64(wire.Window))
		cancel()
		synctest.Wait()
		is.True(s.done)
	})
}

// TestCloseStdin: what the command does not read is not read from the caller.
func TestCloseStdin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		heard := make(chan bool, 1)
		s, _ := start(t, pipe(t, func(g *guest) {
			g.request()
			g.send(wire.KindCloseStdin, "")
			_, ok := g.hear(wire.KindCloseStdin)
			heard <- ok
			g.exit(wire.Exit{Code: 6})
		}), &client.Command{Stdin: endless{}})
		is.True(s.done)
		is.NoErr(s.err)
		is.Equal(s.exit.Code, 6)
		is.True(<-heard)
	})
}

// TestOutputBeyondWindow: a writer that takes its time makes the command wait;
// an init that does not is cut off before it has filled the host's memory.
func TestOutputBeyondWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		out := newGate()
		var sent atomic.Int64
		s, _ := start(t, pipe(t, func(g *guest) {
			g.request()
			g.send(wire.KindStdout, "first")
			<-out.entered
			go g.wait() // for credit that does not come
			for part := strings.Repeat("x", 1<<10); g.send(wire.KindStdout, part); {
				sent.Add(int64(len(part)))
			}
		}), &client.Command{Stdout: out})
		later(time.Hour)
		is.True(sent.Load() >= wire.Window)        // there is room for a window
		is.True(sent.Load() <= wire.Window+64<<10) // and for no more
		close(out.open)
		synctest.Wait()
		is.True(s.done)
		is.True(s.err != nil)
		is.True(strings.Contains(s.err.Error(), "more output than was asked for"))
		is.True(len(out.String()) <= len("first")+wire.Window)
	})
}
