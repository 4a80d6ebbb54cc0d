//go:build linux

package sandbox

import "time"

// WithStep has f called at each step of a change.
func WithStep(cfg Config, f func(step string)) Config {
	cfg.step = f
	return cfg
}

// SweepStart is Sweep that does not wait.
func (r *Runtime) SweepStart(now time.Time) { r.sweep(now) }

// Sweep is what the reaper does, at a time of the test's choice, and returns
// when what it began is done.
func (r *Runtime) Sweep(now time.Time) {
	r.sweep(now)
	for _, s := range r.all() {
		s.await()
	}
}

// await returns when the reaper is not at the sandbox.
func (s *instance) await() {
	for {
		s.mu.Lock()
		busy := s.reaping
		s.mu.Unlock()
		if !busy {
			return
		}
		s.moving.Lock()   // the reaper holds it while it works
		s.moving.Unlock() //nolint:staticcheck // to have waited is all
	}
}
