package sandboxtest

import (
	"context"
	"fmt"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// The clocks of leases are those of a Runtime whose Config has none.
const (
	maxLife      = 24 * time.Hour
	extendBy     = time.Hour
	extendBefore = 10 * time.Minute
)

// Renew implements sandbox.Renewer.
func (m *Memory) Renew(_ context.Context, id string, ttl time.Duration) (time.Time, error) {
	var end time.Time
	err := m.do("renew", id, func(s *instance) (err error) {
		end, err = s.renew(ttl)
		return err
	})
	return end, err
}

func (s *instance) renew(ttl time.Duration) (time.Time, error) {
	if ttl < 0 {
		return time.Time{}, fmt.Errorf("%w: a negative TTL", sandbox.ErrInvalid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return time.Time{}, err
	}
	if ttl == 0 {
		ttl = s.ttl
	}
	now := time.Now()
	s.moveEnd(now, now.Add(ttl))
	return s.info.Expires, nil
}

// moveEnd moves the end of the lease, never to an earlier time, and never
// beyond the longest life. The caller holds s.mu.
func (s *instance) moveEnd(now, end time.Time) {
	if longest := s.info.Created.Add(maxLife); end.After(longest) {
		end = longest
	}
	if end.After(s.info.Expires) {
		s.info.Expires = end
		s.clock.Reset(s.wait(now))
	}
}

// extendAt is when a lease in use is lengthened: near its end, which of a
// short one is its second half. The caller holds s.mu.
func (s *instance) extendAt() time.Time {
	return s.info.Expires.Add(-min(extendBefore, s.ttl/2))
}

// extend lengthens the lease of a sandbox in use if that is due. The caller
// holds s.mu.
func (s *instance) extend(now time.Time) {
	if !s.fixed && !now.Before(s.extendAt()) {
		s.moveEnd(now, now.Add(extendBy))
	}
}

// wait is how long the clock has to wait for what comes next. The caller holds
// s.mu.
func (s *instance) wait(now time.Time) time.Duration {
	if at := s.extendAt(); at.After(now) {
		return at.Sub(now)
	}
	return s.info.Expires.Sub(now)
}

// tick lengthens the lease of a box, or ends the sandbox.
func (s *instance) tick(b *box) {
	s.mu.Lock()
	now := time.Now()
	if s.box != b || s.leaving != nil {
		s.mu.Unlock()
		return
	}
	if b.uses > 0 {
		s.extend(now)
	}
	over := !now.Before(s.info.Expires)
	if over {
		s.leaving = sandbox.ErrEnded // from now on nothing lengthens it
	} else {
		s.clock.Reset(s.wait(now))
	}
	s.mu.Unlock()
	if over {
		_ = s.end(false) // who was faster has ended it too
	}
}
