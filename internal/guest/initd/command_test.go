package initd

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

func TestPickAndTake(t *testing.T) {
	is := is.New(t)
	is.Equal(pick(true, 5), 5)
	is.Equal(pick(false, 5), -1)
	fd := 5
	is.Equal(take(&fd), 5)
	is.Equal(fd, -1)
}

func TestTimeout(t *testing.T) {
	is := is.New(t)
	is.Equal((&command{}).timeout(), -1)            // a program that runs may take its time
	is.Equal((&command{ended: true}).timeout(), -1) // and the host, after the delay
	left := (&command{ended: true, until: time.Now().Add(time.Minute)}).timeout()
	is.True(left > 59_000 && left <= 60_001)
	left = (&command{ended: true, until: time.Now().Add(500 * time.Microsecond)}).timeout()
	is.True(left == 1 || left == -1) // never 0, which would spin
}

func TestOver(t *testing.T) {
	open, closed, spent := &output{left: untilEnd}, &output{fd: -1, left: untilEnd}, &output{}
	for name, c := range map[string]struct {
		cmd  command
		want bool
	}{
		"running":                  {command{}, false},
		"running, gone":            {command{gone: true}, false},
		"ended":                    {command{ended: true}, true},
		"ended, output open":       {command{ended: true, outputs: []*output{closed, open}}, false},
		"ended, output closed":     {command{ended: true, outputs: []*output{closed, spent}}, true},
		"ended, open, nobody left": {command{ended: true, gone: true, outputs: []*output{open}}, true},
	} {
		if got := c.cmd.over(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestHear(t *testing.T) {
	size := string(wire.Size(1, 2))
	for name, c := range map[string]struct {
		kind    wire.Kind
		payload string
		fails   bool
	}{
		"stdin":              {wire.KindStdin, "in", false},
		"too much stdin":     {wire.KindStdin, strings.Repeat("x", wire.Window+1), true},
		"end of stdin":       {wire.KindCloseStdin, "", false},
		"credit":             {wire.KindCredit, string(wire.Credit(wire.KindStdout, 5)), false},
		"credit for nobody":  {wire.KindCredit, string(wire.Credit(99, 5)), false},
		"too much credit":    {wire.KindCredit, string(wire.Credit(wire.KindStdout, wire.Window+1)), true},
		"empty credit":       {wire.KindCredit, "", true},
		"close":              {wire.KindClose, "\x07", false},
		"close of nobody":    {wire.KindClose, "\x63", false},
		"empty close":        {wire.KindClose, "", true},
		"long close":         {wire.KindClose, "\x07\x08", true},
		"signal":             {wire.KindSignal, "\x02", false},
		"empty signal":       {wire.KindSignal, "", true},
		"long signal":        {wire.KindSignal, "\x02\x00", true},
		"no terminal's size": {wire.KindResize, size, false},
		"malformed size":     {wire.KindResize, size[1:], true},
		"an unknown kind":    {200, "new", false},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			cmd := &command{pty: -1, stdin: feed{fd: -1}, outputs: []*output{{fd: -1, kind: wire.KindStdout, room: 1}}, reaper: newReaper(func() {})}
			is.Equal(cmd.hear(c.kind, []byte(c.payload)) != nil, c.fails)
			want := 1
			if name == "credit" {
				want = 6
			}
			is.Equal(cmd.outputs[0].room, want)
			is.True(!cmd.killed)
		})
	}
}

// running starts a shell script as a command whose cgroup is a plain folder:
// all but the kill itself is as in a sandbox.
func running(t *testing.T, r *wire.Request, script string) (h *host, cmd *command, exit <-chan wire.Exit) {
	t.Helper()
	c, h := connected(t)
	io, err := openStdio(r)
	if err != nil {
		t.Fatal(err)
	}
	pidfd := -1
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{
		Env:   []string{"PATH=/usr/bin:/bin"},
		Files: []uintptr{uintptr(io.child[0]), uintptr(io.child[1]), uintptr(io.child[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: r.Terminal, PidFD: &pidfd},
	})
	if err != nil {
		t.Fatal(err)
	}
	io.closeChild()
	cmd = newCommand(c, r, io)
	dir := tree(t, map[string]os.FileMode{"cgroup.kill": 0o644, "cgroup.events": 0o644})
	cmd.reaper, cmd.group, cmd.pid, cmd.pidfd = newReaper(func() {}), &group{path: dir, dir: -1}, pid, pidfd
	cmd.reaper.commands[pid] = nil
	ended := make(chan wire.Exit, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- cmd.run()
		io.closeHost()
		c.Close()
	}()
	t.Cleanup(func() {
		syscall.Kill(-pid, syscall.SIGKILL) // what the script left behind
		h.Close()                           // a write to it may be under way
		<-done
		syscall.Close(pidfd)
	})
	return h, cmd, ended
}

func within(t *testing.T, exit <-chan wire.Exit) wire.Exit {
	t.Helper()
	select {
	case e := <-exit:
		return e
	case <-time.After(5 * time.Second):
		t.Fatal("the command has not ended")
		return wire.Exit{}
	}
}

// all returns what comes on a stream to its end.
func (h *host) all(want wire.Kind) (s string) {
	for {
		kind, payload, err := h.in.Next()
		if err != nil {
			return s
		}
		if kind == want {
			s += string(payload)
		}
	}
}

func TestCommand(t *testing.T) {
	is := is.New(t)
	h, _, exit := running(t, &wire.Request{Streams: wire.Stdin | wire.Stdout | wire.Stderr}, "cat; echo err >&2; exit 3")
	h.send(wire.KindStdin, []byte("one "))
	h.send(wire.KindStdin, []byte("two"))
	h.send(wire.KindCloseStdin, nil)
	is.Equal(within(t, exit), wire.Exit{Code: 3})
	is.Equal(h.all(wire.KindStdout), "one two")
}

func TestCommandBySignal(t *testing.T) {
	is := is.New(t)
	h, _, exit := running(t, &wire.Request{Streams: wire.Stdout}, "trap 'echo int; kill -TERM $$' INT; echo ready; while :; do sleep 0.01; done")
	is.Equal(h.next(wire.KindStdout), "ready\n")
	h.send(wire.KindSignal, []byte{byte(syscall.SIGINT)})
	is.Equal(within(t, exit), wire.Exit{Signal: syscall.SIGTERM})
	is.Equal(h.all(wire.KindStdout), "int\n")
}

// TestCommandLeavesWriter: who holds the output open after the command's end
// is waited for only so long, and not cut off.
func TestCommandLeavesWriter(t *testing.T) {
	is := is.New(t)
	alive := t.TempDir() + "/alive"
	h, _, exit := running(t, &wire.Request{Streams: wire.Stdout, WaitDelay: 20 * time.Millisecond},
		"(trap '' HUP; sleep 0.3; echo late; echo late; touch "+alive+"; sleep 60) & echo now")
	is.Equal(within(t, exit), wire.Exit{})
	is.Equal(h.all(wire.KindStdout), "now\n")
	tick, late := time.NewTicker(5*time.Millisecond), time.After(5*time.Second)
	defer tick.Stop()
	for {
		if _, err := os.Stat(alive); err == nil {
			return // it was not killed by SIGPIPE
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the writer in the background did not live")
		}
	}
}

// TestCommandWaitsForRoom: without credit a command stands still, and loses
// nothing.
func TestCommandWaitsForRoom(t *testing.T) {
	is := is.New(t)
	const total = 3 * wire.Window
	h, _, exit := running(t, &wire.Request{Streams: wire.Stdout}, "head -c 3145728 /dev/zero")
	got := 0
	for got < wire.Window {
		got += len(h.next(wire.KindStdout))
	}
	is.Equal(got, wire.Window) // to the byte
	select {
	case e := <-exit:
		t.Fatalf("ended with %+v before all was sent", e)
	default:
	}
	for got < total {
		h.send(wire.KindCredit, wire.Credit(wire.KindStdout, wire.Window/2))
		for before := got; got < total && got < before+wire.Window/2; {
			got += len(h.next(wire.KindStdout))
		}
	}
	is.Equal(got, total)
	is.Equal(within(t, exit), wire.Exit{})
}

func TestCommandWithClosedOutput(t *testing.T) {
	is := is.New(t)
	h, _, exit := running(t, &wire.Request{Streams: wire.Stdout}, "exec yes")
	h.next(wire.KindStdout)
	h.send(wire.KindClose, []byte{byte(wire.KindStdout)})
	go h.all(wire.KindStdout) // a host always reads
	is.Equal(within(t, exit), wire.Exit{Signal: syscall.SIGPIPE})
}

func TestKill(t *testing.T) {
	is := is.New(t)
	h, cmd, exit := running(t, &wire.Request{Streams: wire.Stdout}, "echo ready; exec sleep 60")
	h.next(wire.KindStdout)
	h.send(wire.KindKill, nil)
	waitFor(t, func() bool { return strings.HasPrefix(contents(t, cmd.group.path, "cgroup.kill"), "1") }) // the kernel would end the group
	syscall.Kill(cmd.pid, syscall.SIGKILL)
	is.Equal(within(t, exit), wire.Exit{Signal: syscall.SIGKILL, Killed: true})
}

// TestHangUp: a host that is gone, or breaks the protocol, ends the command.
func TestHangUp(t *testing.T) {
	for name, leave := range map[string]func(*host){
		"gone":            func(h *host) { h.Close() },
		"broken protocol": func(h *host) { h.send(wire.KindSignal, nil) },
		"too much stdin": func(h *host) {
			for range 20 {
				h.Write(wire.AppendFrame(nil, wire.KindStdin, make([]byte, wire.MaxData)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, cmd, exit := running(t, &wire.Request{Streams: wire.Stdin | wire.Stdout}, "echo ready; exec sleep 60")
			h.next(wire.KindStdout)
			go leave(h)
			waitFor(t, func() bool { return strings.HasPrefix(contents(t, cmd.group.path, "cgroup.kill"), "1") })
			syscall.Kill(cmd.pid, syscall.SIGKILL)
			within(t, exit)
		})
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(5*time.Second)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it does not happen")
		}
	}
}

func TestTerminalSize(t *testing.T) {
	is := is.New(t)
	h, _, exit := running(t, &wire.Request{Terminal: true, Rows: 7, Cols: 30},
		"trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.01; done")
	is.Equal(h.next(wire.KindStdout), "7 30\r\n")
	h.send(wire.KindResize, wire.Size(8, 40))
	is.Equal(within(t, exit), wire.Exit{})
	is.Equal(h.all(wire.KindStdout), "8 40\r\n")
}

func TestReaper(t *testing.T) {
	is := is.New(t)
	r := newReaper(func() {})
	_, err := r.start(func() (int, error) { return 0, syscall.ENOENT })
	is.Equal(err, syscall.ENOENT)
	is.Equal(len(r.commands), 0)
	pid, err := r.start(func() (int, error) { return 1 << 30, nil })
	is.NoErr(err)
	_, ok := r.wait(pid)
	is.True(!ok) // it has not ended
	ws := syscall.WaitStatus(5 << 8)
	r.commands[pid] = &ws // as the patrol does
	got, ok := r.wait(pid)
	is.True(ok)
	is.Equal(got.ExitStatus(), 5)
	_, ok = r.wait(pid)
	is.True(!ok) // a command is taken once
}

func TestLimitedArgs(t *testing.T) {
	is := is.New(t)
	r := &wire.Request{
		UID: 1000, GID: 1001, Argv: []string{"prog", "", "x"}, Env: []string{"A=b"},
		Limits: []wire.Limit{{Resource: 7, Value: 64}, {Resource: 9, Value: 1<<64 - 1}},
	}
	is.Equal(strings.Join(limitedArgs("/bin/prog", r)[1:], "|"), "limited|/bin/prog|1000|1001|2|3|7|64|9|18446744073709551615|prog||x|A=b")
}

func TestFuse(t *testing.T) {
	is := is.New(t)
	f := newFuse()
	f.set(time.Now().Add(time.Hour))
	is.True(f.deadline != nil)
	f.set(time.Time{}) // the zero time is none
	is.True(f.deadline == nil)
	f.join(time.Hour)
	f.join(time.Hour)
	f.leave()
	is.True(f.orphan == nil) // one is left
	f.leave()
	is.True(f.orphan != nil)
	f.join(0)
	is.True(f.orphan == nil) // it was in time
	f.leave()
	is.True(f.orphan == nil) // and wants no end of its own
}
