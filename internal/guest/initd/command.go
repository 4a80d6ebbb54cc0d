package initd

import (
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A command is one program, with everything that it starts in a cgroup of its
// own. One thread does all there is to do for it, in a loop around poll.
type command struct {
	conn   *conn
	reaper *reaper
	group  *group
	pid    int
	pidfd  int

	pty     int // the terminal's master; -1 without one
	stdin   feed
	outputs []*output

	delay  time.Duration
	killed bool // the host asked for the end
	gone   bool // the host has hung up
	ended  bool // the program itself has ended: ws is its status
	ws     syscall.WaitStatus
	until  time.Time // then, once it has ended, who still holds its output open is not waited for
}

func newCommand(c *conn, r *wire.Request, io *stdio) *command {
	cmd := &command{conn: c, delay: r.WaitDelay, pty: io.pty, stdin: feed{fd: take(&io.stdin)}}
	for kind, fd := range map[wire.Kind]*int{wire.KindStdout: &io.stdout, wire.KindStderr: &io.stderr} {
		if *fd >= 0 {
			cmd.outputs = append(cmd.outputs, &output{fd: take(fd), kind: kind, room: wire.Window, left: untilEnd})
		}
	}
	return cmd
}

// take takes a descriptor over.
func take(fd *int) int {
	n := *fd
	*fd = -1
	return n
}

// run returns how the command ended, once its output has been sent.
func (cmd *command) run() wire.Exit {
	if cmd.conn.in.Ready() {
		cmd.listen() // to what came together with the request: poll does not tell
	}
	for !cmd.over() {
		cmd.step()
	}
	cmd.stdin.close()
	for _, out := range cmd.outputs {
		out.leave()
	}
	if cmd.killed || cmd.group.shed.Load() {
		cmd.group.waitEmpty()
	}
	exit := wire.Exit{Code: cmd.ws.ExitStatus(), Killed: cmd.killed}
	if cmd.ws.Signaled() {
		exit.Code, exit.Signal = 0, cmd.ws.Signal()
		exit.Shed = exit.Signal == syscall.SIGKILL && cmd.group.shed.Load()
	}
	return exit
}

func (cmd *command) over() bool {
	if !cmd.ended {
		return false
	}
	for _, out := range cmd.outputs {
		if out.open() && !cmd.gone {
			return false
		}
	}
	return true
}

// step waits for something to do and does it.
func (cmd *command) step() {
	fds := make([]sys.PollFd, 0, 5)
	watch := func(fd int, events int16) int {
		fds = append(fds, sys.PollFd{Fd: int32(fd), Events: events})
		return len(fds) - 1
	}
	conn, process := watch(pick(!cmd.gone, cmd.conn.fd), sys.POLLIN), watch(pick(!cmd.ended, cmd.pidfd), sys.POLLIN)
	stdin := watch(pick(cmd.stdin.waiting(), cmd.stdin.fd), sys.POLLOUT)
	first := len(fds)
	for _, out := range cmd.outputs {
		watch(pick(out.open() && out.room > 0, out.fd), sys.POLLIN)
	}
	if _, err := sys.Poll(fds, cmd.timeout()); err != nil && err != syscall.EINTR {
		fatal("poll", err)
	}
	for i, out := range cmd.outputs {
		if fds[first+i].Revents != 0 && out.copy(cmd.conn) != nil {
			cmd.hangUp()
		}
	}
	if fds[stdin].Revents != 0 && cmd.stdin.copy(cmd.conn) != nil {
		cmd.hangUp()
	}
	if fds[conn].Revents != 0 {
		cmd.listen()
	}
	if fds[process].Revents != 0 {
		cmd.reap()
	}
	cmd.expire()
}

// pick returns fd if it is wanted, else what poll passes over.
func pick(wanted bool, fd int) int {
	if wanted {
		return fd
	}
	return -1
}

// timeout is how long poll may wait, in milliseconds: for ever, but for the
// output of a program that has ended.
func (cmd *command) timeout() int {
	if !cmd.ended {
		return -1
	}
	left := time.Until(cmd.until)
	if left <= 0 {
		return -1 // expire has set the ends; the host's room is what is awaited
	}
	return int(left.Milliseconds()) + 1
}

// expire stops waiting for those that hold the output open after the program
// itself has ended.
func (cmd *command) expire() {
	if !cmd.ended || time.Now().Before(cmd.until) {
		return
	}
	for _, out := range cmd.outputs {
		out.finish()
	}
}

func (cmd *command) reap() {
	ws, ok := cmd.reaper.wait(cmd.pid)
	if !ok {
		return
	}
	cmd.ws, cmd.ended, cmd.until = ws, true, time.Now().Add(cmd.delay)
}

// listen carries out what the host has said.
func (cmd *command) listen() {
	for more := true; more; more = cmd.conn.in.Ready() {
		kind, payload, err := cmd.conn.in.Next()
		if err == nil {
			err = cmd.hear(kind, payload)
		}
		if err != nil {
			cmd.hangUp()
			return
		}
	}
}

func (cmd *command) hear(kind wire.Kind, payload []byte) error {
	switch kind {
	case wire.KindStdin:
		return cmd.stdin.add(payload)
	case wire.KindCloseStdin:
		cmd.stdin.end()
	case wire.KindCredit:
		stream, n, err := wire.ParseCredit(payload)
		if out := cmd.output(stream); out != nil {
			out.room += n
		}
		return err
	case wire.KindClose:
		if len(payload) != 1 {
			return syscall.EPROTO
		}
		if out := cmd.output(wire.Kind(payload[0])); out != nil {
			out.close()
		}
	case wire.KindSignal:
		if len(payload) != 1 {
			return syscall.EPROTO
		}
		cmd.signal(syscall.Signal(payload[0]))
	case wire.KindResize:
		rows, cols, err := wire.ParseSize(payload)
		if err != nil || cmd.pty < 0 {
			return err
		}
		return sys.SetSize(cmd.pty, rows, cols)
	case wire.KindKill:
		cmd.kill()
	default: // a newer host says what an older init can do without
	}
	return nil
}

func (cmd *command) output(kind wire.Kind) *output {
	for _, out := range cmd.outputs {
		if out.kind == kind {
			return out
		}
	}
	return nil
}

// signal sends sig to the command's process group: on a terminal, to the one
// in the foreground.
func (cmd *command) signal(sig syscall.Signal) {
	if cmd.pty >= 0 {
		pgrp, err := sys.Foreground(cmd.pty)
		if err == nil && pgrp > 1 && syscall.Kill(-pgrp, sig) == nil {
			return
		}
	}
	cmd.reaper.signal(cmd.pid, sig)
}

// kill ends the command with everything that it started. Its end is seen like
// any other; run waits until nothing is left.
func (cmd *command) kill() {
	cmd.killed = true
	cmd.group.kill()
}

// hangUp gives up a command that nobody listens to any more.
func (cmd *command) hangUp() {
	cmd.gone = true
	cmd.kill()
}
