//go:build linux

package sandbox_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// python skips a test on a machine without it.
func python(t *testing.T, sb *sandbox.Sandbox) {
	t.Helper()
	if err := sb.Command("python3", "-c", "pass").Run(t.Context()); err != nil {
		runtimetest.Lacks(t, "this machine has no python3 to attack with: ", err)
	}
}

// startPython runs a script and returns when it has printed its first line.
func startPython(t *testing.T, sb *sandbox.Sandbox, script string) {
	t.Helper()
	up, says := net.Pipe()
	t.Cleanup(func() { up.Close() })
	go func() {
		cmd := sb.Command("python3", "-c", script)
		cmd.Stdout = says
		cmd.Run(t.Context())
	}()
	if _, err := up.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
}

func TestTerminalIsNotTheInits(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	python(t, sb)
	startPython(t, sb, `
import os, pty, sys, time
master, slave = pty.openpty()
os.symlink(os.ttyname(slave), "/mnt/data/evil")
print("up", flush=True)
while not os.path.exists("/mnt/data/go"):
    time.sleep(0.01)
os.write(master, b"\x03\x1c")
os.close(slave)
os.close(master)
open("/mnt/data/done", "w").close()
`)
	_, err := fs.ReadFile(sb.FS(t.Context()), "evil")
	is.True(err != nil) // a terminal is no file
	is.NoErr(sb.WriteFile(t.Context(), "go", strings.NewReader(""), 0o644))
	is.NoErr(sb.Command("sh", "-c", "until test -e done; do sleep 0.01; done").Run(runtimetest.Context(t, 20*time.Second)))
	is.NoErr(sb.Command("true").Run(t.Context())) // its keys did not reach the init
}

func TestDescriptorsRunOut(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	python(t, sb)
	cmd := sb.Command("python3", "-c", `
import os
held = []
try:
    while True:
        held.append(os.open("/tmp/f%d" % len(held), os.O_CREAT | os.O_RDWR))
except OSError as e:
    print(e.strerror, flush=True)
os.system("true")
`)
	out, err := cmd.CombinedOutput(runtimetest.Context(t, 2*time.Minute))
	is.NoErr(err)
	is.True(strings.HasPrefix(string(out), "Too many open files")) // the program's own limit
	is.NoErr(sb.Command("true").Run(t.Context()))
}

func TestServerThatNeverReads(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	python(t, sb)
	startPython(t, sb, `
import socket
s = socket.create_server(("127.0.0.1", 7000), backlog=100)
print("up", flush=True)
held = []
while True:
    held.append(s.accept())
`)
	for range 20 {
		c, err := sb.DialContext(t.Context(), "tcp", "localhost:7000")
		is.NoErr(err)
		c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		for err == nil {
			_, err = c.Write(make([]byte, 64<<10))
		}
		is.True(errors.Is(err, os.ErrDeadlineExceeded)) // it takes no more
		is.NoErr(c.Close())
	}
	// The init's ends are those whose remote port is 7000.
	open := `while grep -q ':1B58 01 ' /proc/net/tcp; do sleep 0.1; done`
	is.NoErr(sb.Command("sh", "-c", open).Run(runtimetest.Context(t, 30*time.Second))) // it has let go of each
}

func TestRootWithAPrivateName(t *testing.T) {
	is := is.New(t)
	root := filepath.Join(os.TempDir(), "sandbox-mine")
	t.Cleanup(func() { os.RemoveAll(root) })
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.NoErr(rt.Detach())
	runtimetest.New(t, sandbox.Config{}) // which removes private Roots that were left behind
	next := runtimetest.New(t, sandbox.Config{Root: root})
	again, err := next.Attach(t.Context(), sb.ID())
	is.NoErr(err)
	is.NoErr(again.Command("true").Run(t.Context()))
}

func TestLeaseEndsWithoutItsInit(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{TTL: 3 * time.Second, Fixed: true})
	is.NoErr(err)
	end := sleeper(t, sb)
	is.NoErr(runtimetest.SignalEngine(root, sb.ID(), syscall.SIGSTOP))
	e, ok := errors.AsType[*sandbox.ExitError](<-end)
	is.True(ok)
	is.Equal(e.Cause, sandbox.CauseEnded)
}
