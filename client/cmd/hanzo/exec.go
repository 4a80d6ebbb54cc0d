package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

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
	sb, err := a.sandbox(c.ID)
	if err != nil {
		return err
	}
	cmd := c.cmd(sb)
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	defer forward(cmd, cancel)()
	if !c.TTY {
		cmd.Stderr = os.Stderr
		return a.ended(cmd.Run(ctx))
	}
	restore, err := attach(cmd)
	if err != nil {
		return err
	}
	err = cmd.Run(ctx)
	restore()
	return a.ended(err)
}

func (c *execCmd) cmd(sb *sandbox.Sandbox) *sandbox.Cmd {
	cmd := sb.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Timeout = c.Dir, c.Env, c.Timeout
	if c.User != nil {
		cmd.User = sandbox.User{UID: uint32(c.User.UID), GID: uint32(c.User.GID)}
	}
	cmd.Stdout = os.Stdout
	if !c.NoStdin {
		cmd.Stdin = onlyReader{os.Stdin}
	}
	return cmd
}

type onlyReader struct{ io.Reader }

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
		Stdin      string   `json:"stdin,omitempty"`
	}{Argv: c.Command, Dir: c.Dir, Env: c.Env, User: c.User, TimeoutSec: int64((c.Timeout + time.Second - 1) / time.Second)}
	return a.showRun(post("v1", "sandbox", c.ID, "exec"), body)
}

// forwarded are the signals that go to the program.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// forward sends signals on to the program; the second of those that ask for an
// end brings it about. It returns what ends that.
func forward(cmd *sandbox.Cmd, end func()) (stop func()) {
	in, out, done := make(chan os.Signal, 16), make(chan syscall.Signal, 16), make(chan struct{})
	signal.Notify(in, forwarded...)
	cmd.Signals = out
	go func() {
		ends := 0
		for {
			select {
			case <-done:
				return
			case s := <-in:
				sig, ok := s.(syscall.Signal)
				if !ok {
					continue
				}
				if sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 {
					if ends++; ends > 1 {
						end()
						continue
					}
				}
				select {
				case out <- sig:
				default: // it takes none
				}
			}
		}
	}()
	return func() {
		signal.Stop(in)
		close(done)
	}
}

// attach has the program's terminal be this one, until restore is called.
func attach(cmd *sandbox.Cmd) (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	cols, rows, err := term.GetSize(fd)
	if err != nil || rows < 1 || cols < 1 {
		rows, cols = 24, 80
	}
	screen := sandbox.NewTerminal(uint16(rows), uint16(cols))
	cmd.Terminal = screen
	if name := os.Getenv("TERM"); name != "" {
		cmd.Env = append([]string{"TERM=" + name}, cmd.Env...)
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	sized, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(sized, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-sized:
				if cols, rows, err := term.GetSize(fd); err == nil && rows > 0 && cols > 0 {
					screen.Resize(uint16(rows), uint16(cols)) //nolint:errcheck // it keeps the size that it has
				}
			}
		}
	}()
	return func() {
		signal.Stop(sized)
		close(done)
		term.Restore(fd, before) //nolint:errcheck // there is nothing else to try
	}, nil
}

// ended is how this program ends after the other one has.
func (a *app) ended(err error) error {
	if exit, ok := errors.AsType[*sandbox.ExitError](err); ok {
		switch exit.Cause {
		case sandbox.CauseExit, sandbox.CauseSignal:
			return &exitError{code: exit.Code}
		case sandbox.CauseKilled:
			return &exitError{code: 128 + int(syscall.SIGINT)}
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
	if errors.Is(err, syscall.EPIPE) {
		return &exitError{code: 128 + int(syscall.SIGPIPE)}
	}
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		err = e.Err
	}
	return &exitError{exitLost, fmt.Errorf("%w", a.explain(err))}
}
