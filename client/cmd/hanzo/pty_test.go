//go:build linux

package main

import (
	"bytes"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/matryer/is"
)

// A screen is the far side of a terminal.
type screen struct {
	*os.File
	mu    sync.Mutex
	grown *sync.Cond
	text  bytes.Buffer
	ended bool
	read  sync.WaitGroup
}

func newScreen(f *os.File) *screen {
	s := &screen{File: f}
	s.grown = sync.NewCond(&s.mu)
	s.read.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.ended = err != nil
			s.grown.Broadcast()
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	return s
}

// wait waits until text has appeared, and forgets what was before its end.
func (s *screen) wait(t *testing.T, text string) {
	t.Helper()
	late := time.AfterFunc(20*time.Second, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
		s.grown.Broadcast()
	})
	defer late.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if i := strings.Index(s.text.String(), text); i >= 0 {
			s.text.Next(i + len(text))
			return
		}
		if s.ended {
			t.Fatalf("%q did not appear; there is %q", text, s.text.String())
		}
		s.grown.Wait()
	}
}

// TestTerminal types at a shell in a sandbox through a terminal of this
// machine.
func TestTerminal(t *testing.T) {
	is := is.New(t)
	url, known := newServer(t)
	t.Setenv("HANZO_BASE_URL", url)
	t.Setenv("HANZO_API_KEY", known.add("acme"))
	t.Setenv("TERM", "vt220")
	id, err := command("sandbox", "lease", "-o", "name").Output()
	is.NoErr(err)

	cmd := command("sandbox", "exec", "-t", strings.TrimSpace(string(id)), "--", "sh")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 31, Cols: 91})
	is.NoErr(err)
	defer f.Close()
	screen := newScreen(f)
	screen.wait(t, "$ ")
	before, err := pty.GetsizeFull(f)
	is.NoErr(err)
	is.Equal(before.Rows, uint16(31))

	f.WriteString("tty; stty size; echo $TERM\r")
	screen.wait(t, "/dev/pts/")
	screen.wait(t, "31 91\r\n")
	screen.wait(t, "vt220\r\n")

	// A change of size goes through.
	f.WriteString("echo wai''ting; until [ \"$(stty size)\" != '31 91' ]; do sleep 0.02; done; stty size\r")
	screen.wait(t, "waiting")
	is.NoErr(pty.Setsize(f, &pty.Winsize{Rows: 40, Cols: 100}))
	screen.wait(t, "40 100\r\n")

	// An interrupt is a key like any other, and ends what is in front.
	f.WriteString("sh -c 'echo be\"\"gun; exec sleep 1000'\r")
	screen.wait(t, "begun")
	f.WriteString("\x03")
	screen.wait(t, "$ ")
	f.WriteString("echo inter''rupted $?\r")
	screen.wait(t, "interrupted 130")

	f.WriteString("exit 5\r")
	err = cmd.Wait()
	exit, ok := err.(*osexec.ExitError)
	is.True(ok)
	is.Equal(exit.ExitCode(), 5)
	screen.read.Wait()
}

// TestTerminalSession comes back to a terminal that has a name.
func TestTerminalSession(t *testing.T) {
	is := is.New(t)
	h := newHost(t)
	open := func(rows uint16) (*screen, *osexec.Cmd) {
		cmd := command("sandbox", "terminal", h.id, "--arg", "work")
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: 91})
		is.NoErr(err)
		t.Cleanup(func() { f.Close() })
		return newScreen(f), cmd
	}
	first, cmd := open(31)
	first.WriteString("stty size; there=he''re\r") // whichever shell it is, and however its prompt looks
	first.wait(t, "31 91\r\n")
	is.NoErr(cmd.Process.Kill())
	cmd.Wait()

	second, cmd := open(33)
	second.wait(t, "31 91\r\n") // what was last on it
	second.WriteString("echo still $there; until [ \"$(stty size)\" = '33 91' ]; do sleep 0.02; done; exit\r")
	second.wait(t, "still here\r\n")
	cmd.Wait()
	is.Equal(cmd.ProcessState.ExitCode(), 0)
	second.read.Wait()
}

// TestProgress shows on a terminal how far a copy is, and clears that up.
func TestProgress(t *testing.T) {
	is := is.New(t)
	h := newHost(t)
	name := filepath.Join(t.TempDir(), "large")
	is.NoErr(os.WriteFile(name, nil, 0o600))
	is.NoErr(os.Truncate(name, 1<<30)) // which takes longer than until the first look
	for _, quiet := range []bool{false, true} {
		args := []string{"sandbox", "cp", name, h.id + ":large"}
		if quiet {
			args = append(args, "-q")
		}
		cmd := command(args...)
		cmd.Stderr = nil // the terminal too
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
		is.NoErr(err)
		shown := newScreen(f)
		is.NoErr(cmd.Wait())
		shown.read.Wait()
		f.Close()
		text := shown.text.String()
		if quiet {
			is.Equal(text, "")
			continue
		}
		is.True(regexp.MustCompile(`\[#* *\] +[0-9]+% [0-9.]+ MiB, [0-9.]+ MiB/s large`).MatchString(text))
		is.True(strings.HasSuffix(text, "\r\x1b[K"))
	}
}

// command is this program as hanzo.
func command(args ...string) *osexec.Cmd {
	program := os.Getenv("HANZO")
	if program == "" {
		program = "/proc/self/exe"
	}
	cmd := osexec.Command(program, args...)
	cmd.Args[0] = "hanzo"
	cmd.Stderr = os.Stderr
	return cmd
}
