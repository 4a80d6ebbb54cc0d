package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/rmtree"
)

// An instance is a sandbox of this Runtime.
type instance struct {
	runtime *Runtime
	places
	owner  Owner
	client *client.Client
	watch  *client.Watch

	gone chan struct{} // closed when its engine is
	why  error         // ErrEnded or ErrLost; valid once gone is closed

	endMu sync.Mutex // held by who ends it, or tidies up: others wait
	ended bool       // nothing of it is left

	removed chan struct{} // closed then

	mu       sync.Mutex
	row      row
	ending   bool // by us
	detached bool
}

func (r *Runtime) instance(row row) *instance {
	s := &instance{
		runtime: r, row: row, owner: row.Owner, gone: make(chan struct{}), removed: make(chan struct{}),
		places: placesOf(filepath.Join(r.folder("sandboxes"), row.ID), r.bin),
	}
	s.client = &client.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return dialSocket(ctx, filepath.Join(s.socket, socketName))
	}}
	return s
}

func (s *instance) info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.Info
}

// expirySlack is how long after the end of a lease the init, which sees to it
// inside, is waited for.
const expirySlack = 2 * time.Second

// watchOver waits for the end of the engine, whoever brings it about, and
// brings it about when the lease is over.
func (s *instance) watchOver() {
	expired := time.NewTimer(time.Until(s.info().Expires) + expirySlack)
	defer expired.Stop()
	select {
	case <-s.watch.Lost():
	case <-expired.C:
		s.watch.Close()
	}
	s.mu.Lock()
	over := s.ending || !time.Now().Before(s.row.Expires)
	detached := s.detached
	s.mu.Unlock()
	if detached {
		return
	}
	s.why = ErrLost
	if over {
		s.why = ErrEnded
	}
	close(s.gone)
	if !over {
		s.lost()
		select { // what is kept of it is kept until its time is up
		case <-expired.C:
		case <-s.removed:
			return
		case <-s.runtime.ctx.Done():
			return
		}
	}
	if err := s.end(); err != nil && !errors.Is(err, ErrEnded) {
		s.runtime.log.Error("end of a lease", "id", s.row.ID, "error", err)
	}
}

// lost keeps the row of a sandbox whose engine has died, to tell of it, and
// gives back the rest.
func (s *instance) lost() {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	if s.ended {
		return
	}
	s.runtime.log.Error("sandbox lost", "id", s.row.ID, "said", lastLines(filepath.Join(s.dir, "init.log")))
	s.mu.Lock()
	s.row.Status = StatusError
	err := s.row.write(s.dir)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.runtime.ctx), cleanupTimeout)
	defer cancel()
	if err := errors.Join(err, s.runtime.engine.remove(ctx, s.row.ID)); err != nil {
		s.runtime.log.Error("clean up", "id", s.row.ID, "error", err)
	}
}

// end ends the sandbox and returns when nothing of it is left. After an error
// it can be tried again.
func (s *instance) end() error {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	if s.ended {
		return ErrEnded
	}
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	if err := s.scrap(); err != nil {
		return err
	}
	s.ended = true
	close(s.removed)
	s.runtime.forget(s)
	return nil
}

// scrap ends the engine and removes the folder. It works on any part of a
// sandbox, also one whose start failed, and goes on when the caller is gone.
func (s *instance) scrap() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.runtime.ctx), cleanupTimeout)
	defer cancel()
	// Killed first, because an engine that has stopped answering would keep
	// the orderly way waiting.
	err := s.kill(ctx)
	if err == nil {
		err = s.runtime.engine.remove(ctx, s.row.ID)
	}
	if s.watch != nil {
		s.watch.Close()
	}
	if err != nil {
		return err // the row stays, so that somebody tries again
	}
	return rmtree.Remove(s.dir)
}

// kill ends the engine's process and returns when it is gone. The process is
// held by a descriptor before it is looked at, so that what is killed is what
// was meant, not another that has got its number.
func (s *instance) kill(ctx context.Context) error {
	if s.row.PID == 0 {
		return nil
	}
	pidfd, err := unix.PidfdOpen(s.row.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("engine: process %d: %w", s.row.PID, err)
	}
	defer unix.Close(pidfd)
	if alive, err := s.alive(); !alive {
		return err
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("engine: kill: %w", err)
	}
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, killPoll)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return context.Cause(ctx)
}

// killPoll is how often, in milliseconds, the wait for a killed process looks
// at its deadline.
const killPoll = 100

// alive reports whether the engine's process exists: that one, not another
// that has its number.
func (s *instance) alive() (bool, error) {
	started, err := processStart(s.row.PID)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil && started == s.row.Started, err
}

// letGo leaves the sandbox to the next Runtime.
func (s *instance) letGo() {
	s.mu.Lock()
	s.detached = true
	s.mu.Unlock()
	s.watch.Close()
}

// rememberEnded is how many ended sandboxes are told from unknown ones.
const rememberEnded = 4096

func (r *Runtime) forget(s *instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sandboxes, s.row.ID)
	r.ended[s.row.ID] = s.row.Owner
	r.endedIDs = append(r.endedIDs, s.row.ID)
	if len(r.endedIDs) > rememberEnded {
		delete(r.ended, r.endedIDs[0])
		r.endedIDs = r.endedIDs[1:]
	}
}

// processStart returns when a process started, in clock ticks since boot: see
// proc_pid_stat(5), field 22. A zombie does not exist any more.
func processStart(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return 0, os.ErrNotExist
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// dialSocket connects to a unix socket, also one whose path is too long for an
// address.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		path = "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	}
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", path)
		if !errors.Is(err, unix.EAGAIN) {
			return c, err
		}
		// Its backlog is full: wait for the init to accept.
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}
