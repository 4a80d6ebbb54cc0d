//go:build linux

package sandbox_test

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// A session is a command on a terminal that a test types to.
type session struct {
	t    *testing.T
	term *sandbox.Terminal
	keys *io.PipeWriter
	out  *bufio.Reader
	end  chan error
}

func newSession(t *testing.T, sb *sandbox.Sandbox, name string, args ...string) *session {
	t.Helper()
	keys, typed := io.Pipe()
	shown, screen := io.Pipe()
	s := &session{t: t, term: sandbox.NewTerminal(24, 80), keys: typed, out: bufio.NewReader(shown), end: make(chan error, 1)}
	cmd := sb.Command(name, args...)
	cmd.Terminal, cmd.Stdin, cmd.Stdout = s.term, keys, screen
	go func() {
		s.end <- cmd.Run(t.Context())
		screen.Close()
		keys.Close()
	}()
	return s
}

func (s *session) typeLine(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.keys, line); err != nil {
		s.t.Fatal(err)
	}
}

// until reads what is shown up to and with mark.
func (s *session) until(mark string) string {
	s.t.Helper()
	var b strings.Builder
	for !strings.HasSuffix(b.String(), mark) {
		c, err := s.out.ReadByte()
		if err != nil {
			s.t.Fatalf("waiting for %q: %v, after %q", mark, err, b.String())
		}
		b.WriteByte(c)
	}
	return b.String()
}

func TestTerminal(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	s := newSession(t, sb, "bash", "--norc", "--noediting", "-i")
	s.until("$ ")
	s.typeLine("PS1=; stty -echo; echo re''ady\r")
	s.until("ready\r\n")
	s.typeLine("stty size; echo $TERM $LANG; test -t 0 && test -t 1 && test -t 2 && tty\r")
	is.Equal(s.until("/dev/pts/0\r\n"), "24 80\r\nxterm-256color C.UTF-8\r\n/dev/pts/0\r\n")
	s.typeLine("sh -c 'trap \"stty size; exit\" WINCH; echo set; sleep 1000 & wait'\r")
	s.until("set\r\n")
	is.NoErr(s.term.Resize(50, 132))
	is.Equal(s.until("\r\n"), "50 132\r\n")
	s.typeLine("printf 'h\\303\\251llo \\342\\224\\200\\n'\r")
	is.Equal(s.until("\r\n"), "héllo ─\r\n")
	s.typeLine("sh -c 'echo asleep; exec sleep 1000'\r")
	s.until("asleep\r\n")
	s.typeLine("\x03") // control-C ends the sleep, and not the shell
	s.typeLine("echo status $?; exit 7\r")
	s.until("status 130\r\n")
	io.Copy(io.Discard, s.out)
	e, ok := errors.AsType[*sandbox.ExitError](<-s.end)
	is.True(ok && e.Code == 7)
}

func TestTerminalSizes(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	for _, size := range [][2]uint16{{0, 80}, {24, 0}, {1001, 80}, {24, 1001}} {
		cmd := sb.Command("true")
		cmd.Terminal = sandbox.NewTerminal(size[0], size[1])
		is.True(errors.Is(cmd.Run(t.Context()), sandbox.ErrInvalid))
		is.True(errors.Is(sandbox.NewTerminal(24, 80).Resize(size[0], size[1]), sandbox.ErrInvalid))
	}
}

func TestSignals(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	shown, says := io.Pipe()
	defer shown.Close()
	signals := make(chan syscall.Signal)
	cmd := sb.Command("sh", "-c", "trap 'echo got; exit 9' USR1; echo up; while :; do sleep 1000 & wait $!; done")
	cmd.Stdout, cmd.Signals = says, signals
	end := make(chan error, 1)
	go func() { end <- cmd.Run(t.Context()) }()
	out := bufio.NewReader(shown)
	line, err := out.ReadString('\n')
	is.NoErr(err)
	is.Equal(line, "up\n")
	signals <- syscall.SIGUSR1
	line, err = out.ReadString('\n')
	is.NoErr(err)
	is.Equal(line, "got\n")
	e, ok := errors.AsType[*sandbox.ExitError](<-end)
	is.True(ok && e.Code == 9)
}

// TestTerminalThatNobodyLooksAt has a sandbox become idle as if the terminal
// were not there, and no more so once somebody looks again.
func TestTerminalThatNobodyLooksAt(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	begin := func(project string) (*sandbox.Sandbox, *session) {
		sb, err := rt.Lease(t.Context(), sandbox.Spec{Class: sandbox.ClassDev, Project: project})
		is.NoErr(err)
		s := newSession(t, sb, "bash", "--norc", "--noediting", "-i")
		s.until("$ ")
		go io.Copy(io.Discard, s.out)
		return sb, s
	}
	left, s := begin("left")
	s.term.Watch(false)
	s.term.Watch(false)
	back, b := begin("back")
	b.term.Watch(false)
	b.term.Watch(true)
	rt.Sweep(time.Now().Add(20 * time.Minute))
	_, err := left.Info(t.Context())
	is.True(errors.Is(err, sandbox.ErrEnded))
	is.True(errors.Is(<-s.end, sandbox.ErrEnded))
	info, err := back.Info(t.Context())
	is.NoErr(err)
	is.Equal(info.Status, sandbox.StatusRunning)
	b.term.Watch(false)
	b.typeLine("exit\r")
	is.NoErr(<-b.end)
	rt.Sweep(time.Now().Add(50 * time.Minute))
	_, err = back.Info(t.Context())
	is.True(errors.Is(err, sandbox.ErrEnded))
}
