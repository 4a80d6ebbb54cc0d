//go:build linux

package sandbox

import (
	"errors"
	"time"
)

// reap looks, every so often, for sandboxes that are to end, until the Runtime
// closes. One that cannot be ended now is tried again the next time.
func (r *Runtime) reap(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
			r.sweep(time.Now())
		}
	}
}

// sweep judges every sandbox by the clocks. To end one takes longer than to
// find it, so that is done aside.
func (r *Runtime) sweep(now time.Time) {
	for _, s := range r.all() {
		if reason := s.judge(now); reason != "" {
			r.tasks.Go(func() { s.settle(reason) })
		}
	}
}

// judge notes what is in use, and says why the sandbox is to end now, if it
// is. From then on nothing renews it.
func (s *instance) judge(now time.Time) Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reaping {
		return ""
	}
	if s.life != nil && s.life.uses > 0 {
		s.touch(now)
	}
	s.seen(now)
	st := s.standingLocked()
	reason := s.runtime.clocks.verdict(&st, now)
	switch {
	case s.row.Next == statusEnded: // an end that did not succeed, or is under way
		reason = s.row.Reason
	case s.row.Next == StatusParked: // a pause
		reason = ReasonLost
	case reason != "" && (s.row.Status == StatusRunning || st.staged):
		s.leaving = ErrEnded
	}
	s.reaping = reason != ""
	return reason
}

// settle ends a sandbox that is to end. One that has lost its engine but not
// its files is parked instead.
func (s *instance) settle(reason Reason) {
	defer func() {
		s.mu.Lock()
		s.reaping = false
		s.mu.Unlock()
	}()
	err := s.salvage()
	if errors.Is(err, errNothingToSave) {
		err = s.endIf(s.toEnd, reason)
	}
	if err != nil && !errors.Is(err, ErrEnded) {
		s.runtime.log.Error("reap", "id", s.id, "reason", reason, "error", err)
	}
}

// toEnd reports whether a sandbox that was found fit to be ended still is: it
// may have been paused, or ended, while its turn was awaited.
func (s *instance) toEnd() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving == ErrEnded || s.row.Next == statusEnded || s.row.Status == StatusError //nolint:errorlint // set by us
}

var errNothingToSave = errors.New("no files that outlive the engine")

// salvage parks a sandbox whose engine is gone, or half gone, and whose files
// are on a volume of its own.
func (s *instance) salvage() error {
	s.moving.Lock()
	defer s.moving.Unlock()
	reason := Reason("")
	if s.status() == StatusError {
		reason = ReasonLost
	}
	if !s.runtime.mayPark(s) {
		return errNothingToSave
	}
	if err := s.write(false); err != nil {
		return err
	}
	return s.park(reason)
}
