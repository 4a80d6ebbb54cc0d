//go:build linux

package sandbox

import (
	"cmp"
	"time"
)

// clocks are what ends a lease by itself, as Config has them.
type clocks struct {
	maxLife      time.Duration
	idle         time.Duration
	idleWatched  time.Duration
	extend       time.Duration
	extendBefore time.Duration
}

// The defaults.
const (
	defaultMaxLife      = 24 * time.Hour
	defaultIdle         = 15 * time.Minute
	defaultIdleWatched  = time.Hour
	defaultExtend       = time.Hour
	defaultExtendBefore = 10 * time.Minute
	defaultSweep        = time.Minute
)

func clocksOf(cfg *Config) (clocks, error) {
	if cfg.MaxLife < 0 || cfg.ExtendBefore < 0 || cfg.Sweep < 0 {
		return clocks{}, invalid("Config: a negative MaxLife, ExtendBefore or Sweep")
	}
	return clocks{
		maxLife:      cmp.Or(cfg.MaxLife, defaultMaxLife),
		idle:         cmp.Or(cfg.Idle, defaultIdle),
		idleWatched:  cmp.Or(cfg.IdleWatched, defaultIdleWatched),
		extend:       cmp.Or(cfg.Extend, defaultExtend),
		extendBefore: cmp.Or(cfg.ExtendBefore, defaultExtendBefore),
	}, nil
}

// A standing is what the clocks look at.
type standing struct {
	status    Status
	staged    bool // parked, and has never run
	created   time.Time
	expires   time.Time
	used      time.Time
	connected time.Time
	ttl       time.Duration // of the lease as it was taken
	fixed     bool
	uses      int // commands, streams and connections that are open
	watchers  int // terminals that are
}

// connectedGrace is how long a terminal counts as open after it was last
// seen: somebody whose connection broke comes back.
const connectedGrace = 75 * time.Second

// verdict says why a sandbox is to end now; "" lets it be. A parked one has no
// clock, as it costs nothing but its files, unless nobody has ever come for it.
func (c *clocks) verdict(s *standing, now time.Time) Reason {
	switch {
	case s.status == StatusError:
		return ReasonLost
	case s.status != StatusRunning && !s.staged:
		return ""
	case !now.Before(s.created.Add(c.maxLife)):
		return ReasonMaxLife
	case s.staged:
		return ""
	case !now.Before(s.expires):
		return ReasonExpired
	case s.uses > 0:
		return ""
	case s.watchers > 0 || now.Before(s.connected.Add(connectedGrace)):
		if c.idleWatched > 0 && !now.Before(s.used.Add(c.idleWatched)) {
			return ReasonIdleConnected
		}
	default:
		if c.idle > 0 && !now.Before(later(s.used, s.connected).Add(c.idle)) {
			return ReasonIdle
		}
	}
	return ""
}

// extensionAt is when a lease in use is lengthened: near its end, which of a
// short one is its second half.
func (c *clocks) extensionAt(s *standing) time.Time {
	return s.expires.Add(-min(c.extendBefore, s.ttl/2))
}

// extension is the new end of a lease, and whether it is due one now.
func (c *clocks) extension(s *standing, now time.Time) (time.Time, bool) {
	if c.extend <= 0 || s.fixed || s.status != StatusRunning || now.Before(c.extensionAt(s)) {
		return time.Time{}, false
	}
	end := sooner(now.Add(c.extend), s.created.Add(c.maxLife))
	return end, end.After(s.expires)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
