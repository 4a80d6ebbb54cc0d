//go:build linux

package sandbox

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A use is something under way in a sandbox that keeps it from being idle: a
// command, a file that is open, a connection.
type use struct {
	*instance
	*life
	done func() // ends the use; may be called again
}

// use enters a use of a sandbox that runs.
func (r *Runtime) use(op, id string) (use, error) {
	s, err := r.find(op, id)
	if err != nil {
		return use{}, err
	}
	l, err := s.enterUse(false)
	if err != nil {
		return use{}, &Error{Op: op, ID: id, Err: err}
	}
	return use{instance: s, life: l, done: sync.OnceFunc(func() { s.leaveUse(&l.uses) })}, nil
}

// watching is a use by somebody who may only be looking on: it keeps the
// sandbox for longer than nothing, but not for as long as it lasts.
func (r *Runtime) watching(op, id string) (use, error) {
	s, err := r.find(op, id)
	if err != nil {
		return use{}, err
	}
	l, err := s.enterUse(true)
	if err != nil {
		return use{}, &Error{Op: op, ID: id, Err: err}
	}
	return use{instance: s, life: l, done: sync.OnceFunc(func() { s.leaveUse(&l.watched) })}, nil
}

// watch counts a terminal among those that somebody looks at, or no longer.
func (u *use) watch(watched bool) {
	if !watched {
		u.leaveUse(&u.watched)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watched++
	if u.instance.life == u.life {
		u.touch(time.Now())
	}
}

func (s *instance) enterUse(watch bool) (*life, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	if watch {
		s.life.watched++
	} else {
		s.life.uses++
	}
	s.touch(time.Now())
	return s.life, nil
}

// usable says why the sandbox cannot be used now. The caller holds s.mu.
func (s *instance) usable() error {
	switch {
	case s.leaving != nil:
		return s.leaving
	case s.row.Status == StatusError:
		return &wrapped{text: s.row.Error, kind: ErrLost}
	case s.row.Status != StatusRunning:
		return notNow(s.id, s.row.Status)
	case s.life == nil: // its engine is gone, and it could not be tidied up yet
		return ErrLost
	}
	return nil
}

// leaveUse ends a use, of a life that may be over.
func (s *instance) leaveUse(count *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*count--
	if s.row.Status == StatusRunning {
		s.touch(time.Now())
	}
}

// The stamps are files whose times tell a later Runtime when the sandbox was
// last used and watched: to set one costs a system call, to write the row a
// hundred.
const (
	usedStamp      = "used"
	connectedStamp = "connected"
)

// stampEvery is how exact the stamps are.
const stampEvery = time.Second

// touch notes that the sandbox is used now, and has its lease lengthened if
// that is due. The caller holds s.mu.
func (s *instance) touch(now time.Time) {
	s.row.Used = later(s.row.Used, now)
	if s.life.watchedNow() {
		s.row.Connected = later(s.row.Connected, now)
	}
	if now.Sub(s.stamped) >= stampEvery {
		s.stamped = now
		s.stamp()
	}
	st := s.standingLocked()
	if _, due := s.runtime.clocks.extension(&st, now); due && s.renewing.TryLock() {
		// Whoever watches over the sandbox, which runs, is a task too: Close
		// waits already.
		s.runtime.tasks.Go(func() {
			defer s.renewing.Unlock()
			s.extend(time.Now())
		})
	}
}

// seen notes that a terminal is still open. The caller holds s.mu.
func (s *instance) seen(now time.Time) {
	if s.life.watchedNow() {
		s.row.Connected = later(s.row.Connected, now)
		s.stamp()
	}
}

func (s *instance) stamp() {
	s.setStamp(usedStamp, s.row.Used)
	if !s.row.Connected.IsZero() {
		s.setStamp(connectedStamp, s.row.Connected)
	}
}

func (s *instance) setStamp(name string, t time.Time) {
	path := filepath.Join(s.dir, name)
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return
	}
	times := []unix.Timespec{ts, ts}
	if unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW) != unix.ENOENT {
		return
	}
	// A sandbox that has ended has no folder to put it in.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		f.Close()
		unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW)
	}
}

// readStamps takes over what an earlier Runtime noted.
func (s *instance) readStamps() {
	if info, err := os.Lstat(filepath.Join(s.dir, usedStamp)); err == nil {
		s.row.Used = later(s.row.Used, info.ModTime())
	}
	if info, err := os.Lstat(filepath.Join(s.dir, connectedStamp)); err == nil {
		s.row.Connected = later(s.row.Connected, info.ModTime())
	}
	now := time.Now() // a clock may have been set back since
	s.row.Used, s.row.Connected = sooner(s.row.Used, now), sooner(s.row.Connected, now)
}

func (s *instance) standing() standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standingLocked()
}

func (s *instance) standingLocked() standing {
	st := standing{
		status: s.row.Status, created: s.row.Created, expires: s.row.Expires,
		used: s.row.Used, connected: s.row.Connected, ttl: s.row.TTL, fixed: s.row.Fixed,
		staged: s.row.Status == StatusParked && s.row.Staged && !s.reviving,
	}
	if s.life != nil {
		st.uses, st.watchers = s.life.uses, s.life.watched
	}
	return st
}

// extendInUse lengthens the lease if it is in use and nears its end.
func (s *instance) extendInUse(now time.Time) {
	if st := s.standing(); st.uses == 0 {
		return
	}
	s.renewing.Lock()
	defer s.renewing.Unlock()
	s.extend(now)
}

// extend lengthens the lease if that is due. The caller holds s.renewing.
func (s *instance) extend(now time.Time) {
	st := s.standing()
	end, due := s.runtime.clocks.extension(&st, now)
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(s.runtime.ctx, renewTimeout)
	defer cancel()
	if err := s.moveEnd(ctx, end); err != nil {
		s.runtime.log.Warn("extend a lease in use", "id", s.id, "error", err)
	}
}

// typing is what comes from a terminal: that is a use, while the terminal by
// itself is not.
type typing struct {
	io.Reader
	sandbox *instance
}

func (t *typing) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.sandbox.mu.Lock()
		t.sandbox.touch(time.Now())
		t.sandbox.mu.Unlock()
	}
	return n, err
}
