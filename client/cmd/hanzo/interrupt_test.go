//go:build linux

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/matryer/is"
	"golang.org/x/sys/unix"
)

// ends is the exit code of a command that is to end soon.
func ends(t *testing.T, cmd *osexec.Cmd) (code int) {
	t.Helper()
	late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer late.Stop()
	cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// until waits until something is so, which nobody tells.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); {
		if time.Now().After(end) {
			t.Fatal("waiting in vain: ", what)
		}
	}
}

// begin starts the tool with a pipe that stays open, and returns when it reads
// from that.
func begin(t *testing.T, cmd *osexec.Cmd) {
	t.Helper()
	is := is.New(t)
	r, w, err := os.Pipe()
	is.NoErr(err)
	t.Cleanup(func() { r.Close(); w.Close() })
	w.WriteString("x")
	cmd.Stdin = r
	is.NoErr(cmd.Start())
	until(t, "a read", func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err != nil || n == 0
	})
}

// TestInterruptedInput interrupts what waits for input that does not come.
func TestInterruptedInput(t *testing.T) {
	h := newHost(t)
	for _, line := range []string{
		"sandbox write --id ID --path f", "sandbox fs create ID f", "sandbox cp - ID:f", "sandbox create --data -",
		"exec create --lang bash --code -", "auth login",
	} {
		t.Run(line, func(t *testing.T) {
			is := is.New(t)
			cmd := command(strings.Fields(strings.ReplaceAll(line, "ID", h.id))...)
			begin(t, cmd)
			is.NoErr(cmd.Process.Signal(syscall.SIGINT))
			is.Equal(ends(t, cmd), 130)
		})
	}
}

// TestInterruptedOutput ends what nobody reads from.
func TestInterruptedOutput(t *testing.T) {
	is := is.New(t)
	h := newHost(t)
	r, w, err := os.Pipe()
	is.NoErr(err)
	defer r.Close()
	defer w.Close()
	full := func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err != nil || n > 32<<10
	}
	cmd := command("sandbox", "exec", "-n", h.id, "--", "yes")
	cmd.Stdout = w
	is.NoErr(cmd.Start())
	until(t, "output", full)
	is.NoErr(cmd.Process.Signal(syscall.SIGINT))
	is.NoErr(cmd.Process.Signal(syscall.SIGTERM)) // two of the same may be one
	is.Equal(ends(t, cmd), killed)
}

// TestInterruptedBefore interrupts a program that has not begun, as the server
// does not answer.
func TestInterruptedBefore(t *testing.T) {
	is := is.New(t)
	asked, done := make(chan bool, 1), make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- true
		<-done
	}))
	defer s.Close()
	defer close(done)
	t.Setenv("HANZO_BASE_URL", s.URL)
	t.Setenv("HANZO_API_KEY", "sk-a-key")
	cmd := command("sandbox", "exec", "-n", "x", "--", "true")
	is.NoErr(cmd.Start())
	<-asked
	is.NoErr(cmd.Process.Signal(syscall.SIGINT))
	is.Equal(ends(t, cmd), killed)
}

// TestIgnoredSignals leaves alone what nohup, or a script for what it has in
// the background, has it ignore.
func TestIgnoredSignals(t *testing.T) {
	is := is.New(t)
	h := newHost(t)
	self, err := os.Executable()
	is.NoErr(err)
	cmd := osexec.Command("bash", "-c", `trap '' INT HUP; exec -a hanzo "$0" "$@"`, self, "sandbox", "exec", h.id, "--", "sh", "-c",
		"trap 'exit 7' TERM; echo ready; sleep 1000 & wait")
	out, err := cmd.StdoutPipe()
	is.NoErr(err)
	is.NoErr(cmd.Start())
	b := make([]byte, 6)
	_, err = out.Read(b)
	is.NoErr(err)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		is.NoErr(cmd.Process.Signal(s))
	}
	is.Equal(ends(t, cmd), 7)
}

// A mode is what a terminal does with what is typed.
func mode(t *testing.T, f *os.File) uint32 {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag
}

// TestPassword gives the terminal back when nobody types a key.
func TestPassword(t *testing.T) {
	is := is.New(t)
	cmd := command("auth", "login")
	cmd.Stderr = nil
	f, err := pty.Start(cmd)
	is.NoErr(err)
	defer f.Close()
	screen := newScreen(f)
	screen.wait(t, "key for ")
	until(t, "a hidden key", func() bool { return mode(t, f)&unix.ECHO == 0 })
	f.WriteString("\x03")
	is.Equal(ends(t, cmd), 130)
	is.True(mode(t, f)&unix.ECHO != 0)
}

// TestRawTerminal gives the terminal back whatever ends or stops the tool.
func TestRawTerminal(t *testing.T) {
	h := newHost(t)
	for _, line := range []string{"sandbox exec -t ID -- sh", "sandbox terminal ID"} {
		for _, signals := range [][]syscall.Signal{{syscall.SIGTERM, syscall.SIGINT}, {syscall.SIGQUIT, syscall.SIGTERM}} {
			t.Run(line+signals[0].String(), func(t *testing.T) {
				is := is.New(t)
				cmd := command(strings.Fields(strings.ReplaceAll(line, "ID", h.id))...)
				cmd.Stderr = nil
				f, err := pty.Start(cmd)
				is.NoErr(err)
				defer f.Close()
				screen := newScreen(f)
				f.WriteString("echo rea''dy\r")
				screen.wait(t, "ready")
				is.Equal(mode(t, f)&unix.ECHO, uint32(0))

				// Stopped it has no terminal, and when it goes on it has it again.
				is.NoErr(cmd.Process.Signal(syscall.SIGTSTP))
				until(t, "a terminal of one's own", func() bool { return mode(t, f)&unix.ECHO != 0 })
				until(t, "a stop", func() bool { return stopped(cmd.Process.Pid) })
				is.NoErr(cmd.Process.Signal(syscall.SIGCONT))
				until(t, "a raw terminal", func() bool { return mode(t, f)&unix.ECHO == 0 })
				f.WriteString("echo st''ill\r")
				screen.wait(t, "still")

				for _, s := range signals {
					cmd.Process.Signal(s)
				}
				code := ends(t, cmd)
				is.True(code >= 128)
				is.True(mode(t, f)&unix.ECHO != 0)
			})
		}
	}
}

// TestBackground has a shell's job go on in the background, where it cannot
// read from the terminal, and read when it is in front.
func TestBackground(t *testing.T) {
	is := is.New(t)
	h := newHost(t)
	self, err := os.Executable()
	is.NoErr(err)
	bin := t.TempDir()
	is.NoErr(os.Symlink(self, bin+"/hanzo"))
	cmd := osexec.Command("bash", "--norc", "-i")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PS1=shell> ")
	f, err := pty.Start(cmd)
	is.NoErr(err)
	defer f.Close()
	screen := newScreen(f)
	screen.wait(t, "shell> ")
	f.WriteString("hanzo sandbox exec " + h.id + " -- sh -c 'echo be\"\"gun; until [ -e go ]; do sleep 0.02; done; echo go\"\"es on; read x; echo got $x' &\r")
	screen.wait(t, "begun")
	is.NoErr(command("sandbox", "fs", "create", h.id, "go", "--data", "x", "-o", "name").Run())
	screen.wait(t, "goes on")
	f.WriteString("fg\r")
	screen.wait(t, "hanzo sandbox exec")
	f.WriteString("word\r")
	screen.wait(t, "got word")
	screen.wait(t, "shell> ")
	f.WriteString("exit\r")
	is.Equal(ends(t, cmd), 0)
	screen.read.Wait()
}

func stopped(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(b), ") T ")
}
