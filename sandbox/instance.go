//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/rmtree"
)

// An instance is a sandbox of this Runtime.
type instance struct {
	runtime *Runtime
	id      string
	owner   Owner
	parked  error // ends what runs in it when it is paused
	places

	// moving is held by whoever takes the sandbox from one status to another;
	// others wait their turn. It is taken before Runtime.mu and mu.
	moving sync.Mutex
	ended  bool // nothing of it is left
	stages int  // how many Stages are open

	removed chan struct{} // closed when ended is set

	saving   sync.Mutex // held while the row is written
	renewing sync.Mutex // held while the lease's end is moved

	mu       sync.Mutex
	row      row
	life     *life         // nil without an engine
	group    *cgroup.Group // the engine's; never nil
	leaving  error         // why this life is over, once that is decided: ErrEnded, parked or errDetached
	reviving bool          // it was parked, and its engine is being started
	reaping  bool          // the reaper is at it
	stamped  time.Time     // what the used stamp on disk says
	flushed  time.Duration // how long the volume's last unmount took to write
}

func (r *Runtime) instance(row row) *instance {
	return &instance{
		runtime: r, id: row.ID, owner: row.Owner, parked: notNow(row.ID, StatusParked), row: row, group: &cgroup.Group{}, removed: make(chan struct{}),
		places: placesOf(filepath.Join(r.folder("sandboxes"), row.ID), r.bin),
	}
}

func (s *instance) info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.Info
}

func (s *instance) status() Status { return s.info().Status }

// save writes the row as it is now, and tells the events that are in it.
func (s *instance) save(sync bool) error {
	if err := s.write(sync); err != nil {
		return err
	}
	if s.tell() {
		return s.write(false)
	}
	return nil
}

func (s *instance) write(sync bool) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	row := s.row
	if s.reviving {
		row.Status = StatusParked // which it is again if this Runtime gets no further
	}
	s.mu.Unlock()
	err := row.write(s.dir, sync)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the folder is gone: so is the sandbox
	}
	return err
}

// cleanup returns the context of giving back what a sandbox holds, which goes
// on also when its caller is gone.
func (s *instance) cleanup() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(s.runtime.ctx), cleanupTimeout)
}

// watchOver waits for the end of a life, whoever brings it about, and brings
// it about when the lease is over.
func (s *instance) watchOver(l *life) {
	s.outlive(l)
	loss := s.lossCause()
	s.mu.Lock()
	switch {
	case s.leaving != nil: // somebody ends it, and does the rest
		l.why = s.leaving
	case !time.Now().Add(clockSlack).Before(s.row.Expires):
		s.leaving, l.why = ErrEnded, ErrEnded
		defer s.over()
	default:
		l.why = loss
		s.row.Status, s.row.Error = StatusError, loss.Error()
		defer s.lost(l)
	}
	s.mu.Unlock()
	close(l.gone)
}

// clockSlack is how far the clock inside may be ahead of this one: an init that
// sees to the end of the lease by its own is not lost.
const clockSlack = 100 * time.Millisecond

// expirySlack is how long after the end of a lease the init, which sees to it
// inside, is waited for.
const expirySlack = 2 * time.Second

// outlive returns when a life has ended or its lease has. On the way it
// lengthens the lease of a sandbox in use when that is due.
func (s *instance) outlive(l *life) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-l.watch.Lost():
			return
		case <-next.C:
		}
		now := time.Now()
		s.extendInUse(now)
		st := s.standing()
		wait := st.expires.Add(expirySlack).Sub(now)
		if due := s.runtime.clocks.extensionAt(&st).Sub(now); due > 0 {
			wait = due
		}
		if wait <= 0 {
			l.watch.Close()
			return
		}
		next.Reset(wait)
	}
}

// over ends a sandbox whose lease is.
func (s *instance) over() {
	reason := ReasonExpired
	if s.reached(s.runtime.clocks.maxLife) {
		reason = ReasonMaxLife
	}
	if err := s.end(reason, false); err != nil && !errors.Is(err, ErrEnded) {
		s.runtime.log.Error("end of a lease", "id", s.id, "error", err)
	}
}

func (s *instance) reached(age time.Duration) bool {
	info := s.info()
	return !info.Expires.Before(info.Created.Add(age))
}

// lost gives back what a sandbox held whose engine has died. Its row stays, to
// tell of it, until the next sweep.
func (s *instance) lost(l *life) {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	if s.life != l {
		s.mu.Unlock()
		return // ended meanwhile
	}
	s.note(EventLost, ReasonLost)
	s.mu.Unlock()
	s.runtime.log.Error("sandbox lost", "id", s.id, "said", lastLines(s.initLog))
	ctx, cancel := s.cleanup()
	defer cancel()
	if err := errors.Join(s.write(true), s.stop(ctx), s.save(false)); err != nil {
		s.runtime.log.Error("clean up", "id", s.id, "error", err)
	}
}

// end ends the sandbox and returns when nothing of it is left. After an error
// it can be tried again.
func (s *instance) end(reason Reason, purge bool) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	return s.endNow(reason, purge)
}

// endIf ends the sandbox if that is still to be done when its turn has come.
func (s *instance) endIf(still func() bool, reason Reason) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	if !still() {
		return nil
	}
	return s.endNow(reason, false)
}

// endNow is end for who holds s.moving.
func (s *instance) endNow(reason Reason, purge bool) error {
	if s.ended {
		return ErrEnded
	}
	s.mu.Lock()
	s.leaving = ErrEnded
	if s.row.Next != statusEnded {
		s.row.Next, s.row.Reason = statusEnded, reason
	}
	s.row.Purge = s.row.Purge || purge
	s.mu.Unlock()
	s.runtime.step("end: begin")
	if err := s.write(s.row.Volume != ""); err != nil {
		// There may be no room, and what has taken it is what is to go. A
		// crash from here to the next writing leaves the sandbox as it is.
		s.runtime.log.Warn("note the end of a sandbox", "id", s.id, "error", err)
	}
	return s.finishEnd()
}

// finishEnd does what is left of an end that is noted in the row. The caller
// holds s.moving.
func (s *instance) finishEnd() error {
	s.runtime.step("end: noted")
	if err := s.scrap(); err != nil {
		return err // the row stays, so that somebody tries again
	}
	s.ended = true
	close(s.removed)
	s.runtime.forget(s)
	return nil
}

// scrap ends the engine and removes the folder. It works on any part of a
// sandbox, also one whose start failed, and goes on when the caller is gone.
func (s *instance) scrap() error {
	ctx, cancel := s.cleanup()
	defer cancel()
	if err := s.stop(ctx); err != nil {
		return err
	}
	s.runtime.step("end: stopped")
	if err := s.removeVolume(ctx); err != nil {
		return err
	}
	s.runtime.step("end: volume")
	s.mu.Lock()
	if s.row.Generation > 0 && !s.row.Over {
		s.note(EventEnded, s.row.Reason)
		s.row.Over = true
	}
	s.mu.Unlock()
	if err := s.save(false); err != nil {
		return err
	}
	s.runtime.step("end: told")
	return rmtree.Remove(s.dir)
}

// stop ends the engine, if there is one, and gives back what it used. It can
// be repeated.
func (s *instance) stop(ctx context.Context) error {
	s.mu.Lock()
	l, row, why := s.life, s.row, s.leaving
	s.mu.Unlock()
	if l != nil && row.Volume != "" {
		l.endWrites(why)
	}
	err := s.killEngine(ctx, &row)
	if l != nil && l.watch != nil {
		l.watch.Close()
	}
	if err != nil {
		return err
	}
	s.runtime.step("stop: killed")
	if err := s.group.Remove(ctx); err != nil {
		return err
	}
	s.setGroup(&cgroup.Group{})
	if err := s.runtime.engine.forget(s.id); err != nil {
		return err
	}
	if err := rmtree.Remove(s.run); err != nil {
		return err
	}
	s.runtime.step("stop: forgotten")
	if err := s.unmount(ctx); err != nil {
		return err
	}
	s.runtime.step("stop: unmounted")
	s.mu.Lock()
	s.life, s.row.Engine, s.row.Boot = nil, nil, ""
	s.mu.Unlock()
	return nil
}

// letGo leaves the sandbox to the next Runtime.
func (s *instance) letGo() {
	s.mu.Lock()
	l := s.life
	if s.leaving == nil {
		s.leaving = errDetached
	}
	s.mu.Unlock()
	if l != nil {
		l.watch.Close()
	}
}

// rememberEnded is how many ended sandboxes are told from unknown ones.
const rememberEnded = 4096

func (r *Runtime) forget(s *instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sandboxes[s.id] != s {
		return // it was never on the list
	}
	delete(r.sandboxes, s.id)
	r.ended[s.id] = s.owner
	r.endedIDs = append(r.endedIDs, s.id)
	if len(r.endedIDs) > rememberEnded {
		delete(r.ended, r.endedIDs[0])
		r.endedIDs = r.endedIDs[1:]
	}
}

// killEngine ends the processes of the engine, whether the row tells them or
// a start was cut off before it could.
func (s *instance) killEngine(ctx context.Context, row *row) error {
	if row.Boot == s.runtime.boot {
		for _, p := range row.Engine {
			if err := p.kill(ctx); err != nil {
				return err
			}
		}
	}
	return s.awaitEngine(ctx)
}

// awaitEngine returns when no process has the engine's log open, whose lock
// they inherit. It ends those that are there and not in the row: whoever
// started them died before it could note them.
func (s *instance) awaitEngine(ctx context.Context) error {
	log, err := os.Open(s.initLog)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close()
	for {
		err := unix.Flock(int(log.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		for _, p := range s.runtime.engine.processes(s.id) {
			if p.names(s.dir) {
				if err := p.kill(ctx); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("engine: still there: %w", context.Cause(ctx))
		case <-time.After(engineInterval):
		}
	}
}

// engineInterval is how often a half-made engine is looked for.
const engineInterval = 5 * time.Millisecond
