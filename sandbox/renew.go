//go:build linux

package sandbox

import (
	"context"
	"time"
)

// renewTimeout bounds the wait for an init to take a new end of the lease.
const renewTimeout = 10 * time.Second

// Renew implements Renewer.
func (r *Runtime) Renew(ctx context.Context, id string, ttl time.Duration) (time.Time, error) {
	s, err := r.find("renew", id)
	if err != nil {
		return time.Time{}, err
	}
	end, err := s.renew(ctx, ttl)
	if err != nil {
		return time.Time{}, &Error{Op: "renew", ID: id, Err: err}
	}
	return end, nil
}

func (s *instance) renew(ctx context.Context, ttl time.Duration) (time.Time, error) {
	if ttl < 0 {
		return time.Time{}, invalid("a negative TTL")
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	s.renewing.Lock()
	defer s.renewing.Unlock()
	st := s.standing()
	if ttl == 0 {
		ttl = st.ttl
	}
	if err := s.moveEnd(ctx, sooner(time.Now().Add(ttl), st.created.Add(s.runtime.clocks.maxLife))); err != nil {
		return time.Time{}, err
	}
	return s.info().Expires, nil
}

// moveEnd moves the end of the lease, never to an earlier time. The init is
// told first, as it would end the sandbox at the time that it knows; if it has
// begun to, there is no answer and the end stays. Whether the lease is over is
// decided under s.mu, once: an answer that comes after that decision changes
// nothing. The caller holds s.renewing.
func (s *instance) moveEnd(ctx context.Context, end time.Time) error {
	s.mu.Lock()
	l, err := s.life, s.usable()
	old := s.row.Expires
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if !end.After(old) {
		return nil
	}
	if err := l.watch.Move(ctx, end); err != nil {
		return l.fate(err)
	}
	s.mu.Lock()
	if err = s.usable(); err == nil && s.life == l {
		s.row.Expires = end
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.write(true)
}
