package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox"
)

// execCmd runs a program there as if it were here.
type execCmd struct {
	TTY     bool          `short:"t" name:"tty" help:"Give it a terminal, which is this one."`
	NoStdin bool          `short:"n" name:"no-stdin" help:"It reads nothing; for use in loops that read standard input themselves."`
	Dir     string        `short:"C" help:"Where it starts."`
	Env     []string      `short:"e" sep:"none" placeholder:"KEY=VALUE" help:"Added to its environment; may be repeated."`
	User    *user         `short:"u" placeholder:"UID:GID" help:"Who it runs as."`
	Timeout time.Duration `help:"How long it may run."`

	ID      string   `arg:"" help:"The sandbox."`
	Command []string `arg:"" optional:"" passthrough:"" help:"The program and its arguments, after --. With -t a shell without them."`
}

// Help is what --help adds.
func (c *execCmd) Help() string {
	return `What the program reads, writes and is signalled goes through. Interrupting once interrupts the program; twice ends it with all that it started.

Examples:
  hanzo sandbox exec ID -- python3 -c 'print(6 * 7)'
  tar c src | hanzo sandbox exec ID -- tar x
  hanzo sandbox exec -t ID
  hanzo sandbox exec -o json ID -- ls   # as a value, when it has ended; it reads nothing`
}

// shell is what -t starts without a program.
var shell = []string{"sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l"}

// Run runs.
func (c *execCmd) Run(a *app) error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	switch {
	case len(c.Command) == 0 && c.TTY:
		c.Command = shell
	case len(c.Command) == 0:
		return usage("which program? Give it after --, or -t for a shell")
	case a.Output == "json":
		return c.runValue(a)
	case c.TTY && !isTerminal(os.Stdin):
		return usage("-t: standard input is no terminal")
	}
	_, sb, err := a.sandbox(c.ID)
	if err != nil {
		return err
	}
	cmd := c.cmd(sb)
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	defer a.forward(cmd, cancel)()
	if !c.TTY {
		cmd.Stderr = os.Stderr
		return a.endedBy(ctx, cmd.Run(ctx))
	}
	t, err := a.attach(cmd)
	if err != nil {
		return err
	}
	defer t.restore()
	err = a.endedBy(ctx, cmd.Run(ctx))
	if exit, ok := errors.AsType[*exitError](err); ok && (exit.err != nil || exit.code == killed) {
		t.reset()
	}
	return err
}

func (c *execCmd) cmd(sb *sandbox.Sandbox) *sandbox.Cmd {
	cmd := sb.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Timeout = c.Dir, c.Env, c.Timeout
	if c.User != nil {
		cmd.User = sandbox.User(*c.User)
	}
	cmd.Stdout = os.Stdout
	if !c.NoStdin {
		signal.Ignore(syscall.SIGTTIN)
		cmd.Stdin = typed{}
	}
	return cmd
}

// A typed is standard input. While this program is in the background of a
// terminal it has nothing, rather than stop it.
type typed struct{}

// looks is how often it looks whether that is over.
const looks = 200 * time.Millisecond

func (typed) Read(p []byte) (int, error) {
	for {
		n, err := os.Stdin.Read(p)
		if !errors.Is(err, syscall.EIO) || !inBackground() {
			return n, err
		}
		time.Sleep(looks) //nolint:forbidigo // nobody tells who comes to the front
	}
}

func inBackground() bool {
	front, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	return err == nil && front != unix.Getpgrp()
}

// runValue runs it by the operation whose answer is a value.
func (c *execCmd) runValue(a *app) error {
	if c.TTY {
		return usage("-t and -o json exclude each other")
	}
	body := struct {
		Argv       []string `json:"argv"`
		Dir        string   `json:"dir,omitempty"`
		Env        []string `json:"env,omitempty"`
		User       *user    `json:"user,omitempty"`
		TimeoutSec int64    `json:"timeoutSec,omitempty"`
	}{Argv: c.Command, Dir: c.Dir, Env: c.Env, User: c.User, TimeoutSec: int64((c.Timeout + time.Second - 1) / time.Second)}
	return a.showRun(post("v1", "sandbox", c.ID, "exec"), body)
}

// forwarded are the signals that go to the program.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// forward sends signals on to the program; the second of those that ask for an
// end brings it about, and so does the first while nothing takes it. It returns
// what ends that.
func (a *app) forward(cmd *sandbox.Cmd, end func()) (stop func()) {
	in, out, done := make(chan os.Signal, 16), make(chan syscall.Signal), make(chan struct{})
	notify(in, forwarded)
	cmd.Signals = out
	go func() {
		ends := 0
		for {
			select {
			case <-done:
				return
			case s := <-in:
				if slices.Contains(ending, s) {
					ends++
				}
				if ends < 2 && pass(s, out, done) {
					continue
				}
				if ends > 2 {
					a.leave(killed)
				}
				end()
				time.AfterFunc(patience, func() { a.leave(killed) })
			}
		}
	}()
	return func() {
		signal.Stop(in)
		close(done)
	}
}

// pass gives a signal to a program that takes it, in the time that it has for
// that.
func pass(s os.Signal, out chan<- syscall.Signal, done <-chan struct{}) bool {
	sig, _ := s.(syscall.Signal) //nolint:errcheck // there are no others
	select {
	case out <- sig:
	case <-done:
	case <-time.After(time.Second):
		return !slices.Contains(ending, s)
	}
	return true
}

// attach has the program's terminal be this one.
func (a *app) attach(cmd *sandbox.Cmd) (*tty, error) {
	rows, cols := size(int(os.Stdin.Fd()))
	screen := sandbox.NewTerminal(uint16(rows), uint16(cols))
	cmd.Terminal = screen
	if name := os.Getenv("TERM"); name != "" {
		cmd.Env = append([]string{"TERM=" + name}, cmd.Env...)
	}
	return a.raw(func(rows, cols int) {
		screen.Resize(uint16(rows), uint16(cols)) //nolint:errcheck // it keeps the size that it has
	})
}

// killed is the exit code for a program that was ended with all that it
// started.
const killed = 128 + int(syscall.SIGINT)

// endedBy is ended for a program that ctx may have ended.
func (a *app) endedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitError{code: killed}
	}
	return a.ended(err)
}

// ended is how this program ends after the other one has.
func (a *app) ended(err error) error {
	if exit, ok := errors.AsType[*sandbox.ExitError](err); ok {
		switch exit.Cause {
		case sandbox.CauseExit, sandbox.CauseSignal:
			return &exitError{code: exit.Code}
		case sandbox.CauseServer:
			return &exitError{exitLost, errors.New("the server is gone, and how the program ended is not known")}
		default:
			return &exitError{exit.Code, fmt.Errorf("the program was ended: %s", exit.Cause)}
		}
	}
	if start, ok := errors.AsType[*sandbox.StartError](err); ok {
		code := 126
		if errors.Is(start, fs.ErrNotExist) {
			code = 127
		}
		return &exitError{code, start}
	}
	if err == nil {
		return nil
	}
	if _, far := errors.AsType[*net.OpError](err); !far && errors.Is(err, syscall.EPIPE) {
		return &exitError{code: 128 + int(syscall.SIGPIPE)}
	}
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		err = e.Err
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%s does not carry the streams of programs; is that where sandboxd is? HANZO_BASE_URL says it", a.BaseURL)
	}
	return &exitError{exitLost, fmt.Errorf("%w", a.explain(err))}
}
