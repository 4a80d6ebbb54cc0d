package client_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

var errWhy = errors.New("why")

// started is an Exec under way in a bubble.
type started struct {
	exit wire.Exit
	err  error
	took time.Duration // since the context ended
	done bool
}

// start runs cmd. The returned function ends its context.
func start(t *testing.T, c *client.Client, cmd *client.Command) (s *started, cancel func()) {
	s = &started{}
	var at time.Time
	ctx, stop := context.WithCancelCause(t.Context())
	go func() {
		s.exit, s.err = c.Exec(ctx, cmd)
		s.took, s.done = time.Since(at), true
	}()
	synctest.Wait()
	return s, func() {
		at = time.Now()
		stop(errWhy)
	}
}

// later waits in the bubble's time, in which nothing that can go on stands
// still.
func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		out := &record{}
		s, cancel := start(t, pipe(t, func(g *guest) {
			g.request()
			g.send(wire.KindStdout, "before")
			g.hear(wire.KindKill)
			g.send(wire.KindStdout, " and after")
			g.exit(wire.Exit{Signal: syscall.SIGKILL, Killed: true})
		}), &client.Command{Stdout: out})
		later(time.Hour)
		is.True(!s.done) // a command may take its time
		cancel()
		synctest.Wait()
		is.True(s.done) // at once
		is.True(errors.Is(s.err, errWhy))
		is.Equal(out.String(), "before and after") // what it had written was delivered
	})
}

// TestKillOfEnded: a command that ended by itself has not been cut short.
func TestKillOfEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		s, cancel := start(t, pipe(t, func(g *guest) {
			g.request()
			g.hear(wire.KindKill)
			g.exit(wire.Exit{Code: 5})
		}), &client.Command{})
		cancel()
		synctest.Wait()
		is.NoErr(s.err)
		is.Equal(s.exit, wire.Exit{Code: 5})
	})
}

// TestKillIgnored: an init that does not kill is hung up on within a second.
func TestKillIgnored(t *testing.T) {
	for name, script := range map[string]func(*guest){
		"reads":       (*guest).wait,
		"never reads": func(g *guest) { g.request(); <-g.t.Context().Done() },
		"talks on": func(g *guest) {
			g.request()
			g.hear(wire.KindKill)
			for {
				<-time.After(time.Millisecond)
				if !g.send(wire.KindCredit, string(wire.Credit(wire.KindStdin, 1))) {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				s, cancel := start(t, pipe(t, script), &client.Command{})
				cancel()
				later(time.Second)
				is.True(s.done)
				is.True(errors.Is(s.err, errWhy))
			})
		})
	}
}

func TestKillIsAsked(t *testing.T) {
	is := is.New(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	killed := make(chan bool, 1)
	c := serve(t, func(g *guest) {
		g.request()
		g.hear(wire.KindStdin)
		cancel(errWhy)
		_, ok := g.hear(wire.KindKill)
		killed <- ok
		g.exit(wire.Exit{Killed: true})
	})
	_, err := c.Exec(ctx, &client.Command{Stdin: strings.NewReader("in")})
	is.True(errors.Is(err, errWhy))
	is.True(<-killed)
}

// TestKillWhileSending: also when what is being sent to the command has filled
// the connection.
func TestKillWhileSending(t *testing.T) {
	t.Parallel() // it waits for the grace
	is := is.New(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	c := serve(t, func(g *guest) {
		g.request()
		g.hear(wire.KindStdin)
		cancel(errWhy)
		<-done
	})
	at := time.Now()
	_, err := c.Exec(ctx, &client.Command{Stdin: endless{}})
	took := time.Since(at)
	close(done)
	is.True(errors.Is(err, errWhy))
	is.True(took < 3*time.Second)
}

// TestKillWithBlockedWriter: a writer that does not return holds up a call for
// the grace, not for ever.
func TestKillWithBlockedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		out := newGate()
		s, cancel := start(t, pipe(t, func(g *guest) {
			g.request()
			g.send(wire.KindStdout, "output")
			g.hear(wire.KindKill)
			g.exit(wire.Exit{Signal: syscall.SIGKILL, Killed: true})
		}), &client.Command{Stdout: out})
		cancel()
		later(time.Second)
		is.True(s.done)
		is.True(errors.Is(s.err, errWhy))
		close(out.open)
	})
}

// TestEndOfContextWhileDraining: the command has ended, its writer has not.
func TestEndOfContextWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		out := newGate()
		s, cancel := start(t, pipe(t, func(g *guest) {
			g.request()
			g.send(wire.KindStdout, "output")
			g.exit(wire.Exit{})
		}), &client.Command{Stdout: out})
		later(time.Hour)
		is.True(!s.done) // a writer may take its time
		cancel()
		later(time.Second)
		is.True(s.done)
		is.True(errors.Is(s.err, errWhy))
		close(out.open)
	})
}

// stubborn are inits that kill late or never.
var stubborn = map[string]func(*guest){
	"late exit": func(g *guest) {
		g.request()
		g.send(wire.KindStdout, "output")
		g.hear(wire.KindKill)
		<-time.After(790 * time.Millisecond)
		g.exit(wire.Exit{Signal: syscall.SIGKILL, Killed: true})
	},
	"no exit": func(g *guest) {
		g.request()
		g.send(wire.KindStdout, "output")
		g.wait()
	},
}

// killStubborn returns whether an Exec with a blocked writer has returned some
// time after its context ended.
func killStubborn(t *testing.T, script func(*guest), after time.Duration) bool {
	is := is.New(t)
	out := newGate()
	defer close(out.open)
	s, cancel := start(t, pipe(t, script), &client.Command{Stdout: out})
	cancel()
	later(after)
	is.True(!s.done || errors.Is(s.err, errWhy))
	return s.done
}

func TestStubbornInitWithBlockedWriter(t *testing.T) {
	for name, script := range stubborn {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				is.True(killStubborn(t, script, 2*time.Second))
			})
		})
	}
}

func TestStubbornInitWithinASecond(t *testing.T) {
	for name, script := range stubborn {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				is.True(killStubborn(t, script, time.Second))
			})
		})
	}
}

func TestNoWriteAfterReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		out := newGate()
		s, cancel := start(t, pipe(t, func(g *guest) {
			g.request()
			g.send(wire.KindStdout, "output")
			<-out.entered // the writer has it
			g.send(wire.KindStdout, "more")
			g.hear(wire.KindKill)
			g.exit(wire.Exit{Signal: syscall.SIGKILL, Killed: true})
		}), &client.Command{Stdout: out})
		cancel()
		later(time.Second)
		is.True(s.done)
		close(out.open)
		synctest.Wait()
		is.Equal(out.String(), "output") // the Write that was under way is the last
	})
}

// TestLostExecDeliversFirst: what had come is not lost with the connection.
func TestLostExecDeliversFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		out := newGate()
		s, _ := start(t, pipe(t, func(g *guest) {
			g.request()
			g.send(wire.KindStdout, "output")
			<-out.entered
			g.send(wire.KindStdout, " to the last byte")
		}), &client.Command{Stdout: out})
		returned := s.done
		close(out.open)
		synctest.Wait()
		is.True(!returned) // the writer was still busy
		is.True(s.done)
		is.True(errors.Is(s.err, client.ErrLost))
		is.Equal(out.String(), "output to the last byte")
	})
}

// TestEndOfDeafInit: an init that has told the end and reads no more holds up
// nothing, whatever is still to be sent to it.
func TestEndOfDeafInit(t *testing.T) {
	for name, script := range map[string]func(*guest){
		"exit":            func(g *guest) { g.exit(wire.Exit{}) },
		"broken protocol": func(g *guest) { g.raw(header(wire.KindStdout, 1<<31)) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			done := make(chan struct{})
			defer close(done)
			c := serve(t, func(g *guest) {
				g.request()
				g.hear(wire.KindStdin) // and from now on standard input fills the socket
				for range wire.Window / wire.MaxData {
					g.send(wire.KindStdout, strings.Repeat("x", wire.MaxData))
				}
				script(g)
				<-done
			})
			ctx := within(t, patience)
			_, err := c.Exec(ctx, &client.Command{Stdin: endless{}, Stdout: &record{}})
			is.Equal(err != nil, name != "exit")
			is.NoErr(ctx.Err())
		})
	}
}
