package initd

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A command is one program, run with everything that it starts in a cgroup of
// its own.
type command struct {
	conn   *conn
	reaper *reaper
	group  *group
	pid    int

	stdin   *feed // nil if the host sends none
	pty     *os.File
	outputs map[wire.Kind]*output

	killOnce sync.Once
	killed   bool // the host asked for the end; set before kill returns
	gone     chan struct{}
}

// exec runs a command to its end. The host's hanging up ends it too.
func (s *server) exec(c *conn, r *wire.Request) error {
	path, err := s.lookPath(r)
	if err != nil {
		return err
	}
	stdio, err := s.openStdio(r)
	if err != nil {
		return err
	}
	group, err := s.groups.create()
	if err != nil {
		stdio.closeAll()
		return err
	}
	defer s.groups.release(group)
	pid, ended, err := s.reaper.start(func() (int, error) { return fork(path, r, stdio, group) })
	stdio.closeChild()
	if err != nil {
		stdio.closeHost()
		return startError(err, r.Argv[0])
	}
	cmd := &command{conn: c, reaper: s.reaper, group: group, pid: pid, pty: stdio.pty, gone: make(chan struct{})}
	cmd.attach(stdio)
	go cmd.listen()
	exit := cmd.wait(ended, r.WaitDelay)
	return c.send(wire.KindExit, exit.Append(nil))
}

// attach starts the copying of the command's streams.
func (cmd *command) attach(stdio *stdio) {
	if stdio.stdin != nil {
		cmd.stdin = newFeed(stdio.stdin, cmd.conn)
	}
	cmd.outputs = map[wire.Kind]*output{}
	for kind, f := range map[wire.Kind]*os.File{wire.KindStdout: stdio.stdout, wire.KindStderr: stdio.stderr} {
		if f != nil {
			cmd.outputs[kind] = newOutput(f, kind, cmd.conn)
		}
	}
}

// listen carries out what the host says while the command runs.
func (cmd *command) listen() {
	defer close(cmd.gone)
	for {
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
		if cmd.stdin == nil {
			return syscall.EPROTO
		}
		return cmd.stdin.add(payload)
	case wire.KindCloseStdin:
		if cmd.stdin != nil {
			cmd.stdin.end()
		}
	case wire.KindCredit:
		stream, n, err := wire.ParseCredit(payload)
		if err != nil {
			return err
		}
		if out := cmd.outputs[stream]; out != nil {
			out.window.add(n)
		}
	case wire.KindSignal:
		if len(payload) != 1 {
			return syscall.EPROTO
		}
		cmd.signal(syscall.Signal(payload[0]))
	case wire.KindResize:
		rows, cols, err := wire.ParseSize(payload)
		if err != nil {
			return err
		}
		if cmd.pty != nil {
			return setSize(cmd.pty, rows, cols)
		}
	case wire.KindClose:
		if len(payload) != 1 {
			return syscall.EPROTO
		}
		if out := cmd.outputs[wire.Kind(payload[0])]; out != nil {
			out.refuse()
		}
	case wire.KindKill:
		// Not here: the streams must go on moving meanwhile.
		go cmd.kill()
	}
	return nil
}

// signal sends sig to the command's process group: on a terminal, to the one
// in the foreground.
func (cmd *command) signal(sig syscall.Signal) {
	if cmd.pty != nil && foreground(cmd.pty, sig) == nil {
		return
	}
	cmd.reaper.signal(cmd.pid, sig)
}

// kill ends the command with everything it started, at the host's wish.
func (cmd *command) kill() {
	cmd.killOnce.Do(func() {
		cmd.killed = true
		cmd.group.kill()
	})
}

// hangUp gives up the command because nobody listens any more.
func (cmd *command) hangUp() {
	cmd.kill()
	if cmd.stdin != nil {
		cmd.stdin.abandon()
	}
	for _, out := range cmd.outputs {
		out.window.close()
	}
}

// wait returns how the command ended, once its output has been sent. Others
// may hold the output open for ever, so after the command's own end the output
// has delay to end.
func (cmd *command) wait(ended <-chan syscall.WaitStatus, delay time.Duration) wire.Exit {
	ws := <-ended
	deadline := time.Now().Add(delay)
	for _, out := range cmd.outputs {
		out.endBy(deadline)
	}
	for _, out := range cmd.outputs {
		<-out.done
	}
	if cmd.stdin != nil {
		cmd.stdin.abandon()
	}
	if cmd.pty != nil {
		defer cmd.pty.Close()
	}
	exit := wire.Exit{Code: ws.ExitStatus()}
	if ws.Signaled() {
		exit = wire.Exit{Signal: ws.Signal()}
	}
	// A kill that came too late for the command is none, but one that is
	// under way ends before the answer.
	cmd.killOnce.Do(func() {})
	exit.Killed = cmd.killed
	return exit
}

// fork starts the program in its cgroup as its user, the leader of a session.
func fork(path string, r *wire.Request, stdio *stdio, g *group) (int, error) {
	attr := &syscall.ProcAttr{
		Dir:   r.Dir,
		Env:   r.Env,
		Files: []uintptr{stdio.child[0].Fd(), stdio.child[1].Fd(), stdio.child[2].Fd()},
		Sys: &syscall.SysProcAttr{
			Setsid:      true,
			Setctty:     r.Terminal,
			UseCgroupFD: true,
			CgroupFD:    int(g.dir.Fd()),
		},
	}
	if len(r.Limits) > 0 {
		return forkLimited(path, r, attr)
	}
	attr.Sys.Credential = &syscall.Credential{Uid: r.UID, Gid: r.GID}
	return syscall.ForkExec(path, r.Argv, attr)
}

// foreground sends sig to the foreground process group of a terminal.
func foreground(pty *os.File, sig syscall.Signal) error {
	return control(pty, func(fd int) error {
		pgrp, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err != nil {
			return err
		}
		if pgrp <= 1 {
			return syscall.ESRCH
		}
		return syscall.Kill(-pgrp, sig)
	})
}

func setSize(pty *os.File, rows, cols uint16) error {
	return control(pty, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}

func control(f *os.File, op func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = op(int(fd)) }); e != nil {
		return e
	}
	return err
}
