package initd

import (
	"runtime"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// exec runs a command to its end. The host's hanging up ends it too.
func (s *server) exec(c *conn, r *wire.Request) error {
	path, stdio, err := s.prepare(r)
	if err != nil {
		return err
	}
	defer stdio.closeHost()
	defer stdio.closeChild()
	group, err := s.groups.create()
	if err != nil {
		return err
	}
	defer func() {
		if s.groups.release(group); s.groups.busy() {
			s.reaper.patrol(s.groups.busy)
		}
	}()
	pidfd := -1
	pid, err := s.reaper.start(func() (int, error) {
		if c.hungUp() { // it may have waited for its turn
			return 0, syscall.ECANCELED
		}
		return s.fork(path, r, stdio, group, &pidfd)
	})
	if err != nil {
		return startError(err, r.Argv[0])
	}
	defer syscall.Close(pidfd)
	s.reaper.patrol(s.groups.busy)
	stdio.closeChild()
	cmd := newCommand(c, r, stdio)
	cmd.reaper, cmd.group, cmd.pid, cmd.pidfd = s.reaper, group, pid, pidfd
	exit := cmd.run()
	return c.send(wire.KindExit, exit.Append(nil))
}

// prepare does, as the command's user, what that user must be allowed to do.
func (s *server) prepare(r *wire.Request) (path string, io *stdio, err error) {
	if len(r.Argv) == 0 {
		return "", nil, &wire.Error{Phase: wire.PhaseStart, Errno: syscall.EINVAL, Text: "no program named"}
	}
	if r.UID == 0 || r.GID == 0 {
		return "", nil, &wire.Error{Phase: wire.PhaseStart, Errno: syscall.EPERM, Text: "commands do not run as root"}
	}
	err = user{r.UID, r.GID}.do(func() error {
		if err := searchable(r.Dir); err != nil {
			return startError(err, r.Dir)
		}
		if path, err = find(r.Argv[0], r.Dir, r.Env); err != nil {
			return startError(err, r.Argv[0])
		}
		io, err = openStdio(r)
		return err
	})
	return path, io, err
}

// fork starts the program in its cgroup as its user, the leader of a session,
// on the processors that the sandbox is to see: it has them from this thread.
func (s *server) fork(path string, r *wire.Request, stdio *stdio, g *group, pidfd *int) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if n := s.groups.cpus(); n > 0 {
		_ = sys.SetAffinity(n) // it is but what programs are told
	}
	attr := &syscall.ProcAttr{
		Dir:   r.Dir,
		Env:   r.Env,
		Files: []uintptr{uintptr(stdio.child[0]), uintptr(stdio.child[1]), uintptr(stdio.child[2])},
		Sys: &syscall.SysProcAttr{
			Setsid:      true,
			Setctty:     r.Terminal,
			UseCgroupFD: true,
			CgroupFD:    g.dir,
			PidFD:       pidfd,
		},
	}
	if len(r.Limits) > 0 {
		return forkLimited(path, r, attr)
	}
	attr.Sys.Credential = &syscall.Credential{Uid: r.UID, Gid: r.GID}
	return syscall.ForkExec(path, r.Argv, attr)
}

// startError says that a command could not be started, and on what.
func startError(err error, path string) error {
	e := wireError(err)
	e.Phase = wire.PhaseStart
	if e.Path == "" {
		e.Path = clip(path)
	}
	return e
}
