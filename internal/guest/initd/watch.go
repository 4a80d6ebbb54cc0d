package initd

import (
	"os"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A fuse ends the sandbox when its time is up, also if no Runtime is left to
// do it.
type fuse struct {
	mu       sync.Mutex
	end      time.Time
	deadline *time.Timer
	orphan   *time.Timer
	watchers int
	grace    time.Duration
}

func newFuse() *fuse { return &fuse{} }

func burn() {
	os.Stderr.WriteString("sandbox init: time is up\n")
	os.Exit(0)
}

// set moves the end of the sandbox; the zero time is none.
func (f *fuse) set(end time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deadline != nil {
		f.deadline.Stop()
		f.deadline = nil
	}
	f.end = end
	if !end.IsZero() {
		f.deadline = time.AfterFunc(time.Until(end), f.reach)
	}
}

// reach ends the sandbox unless its end has been moved since the timer fired:
// whoever was told that it was moved can rely on it.
func (f *fuse) reach() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.end.IsZero() && !time.Now().Before(f.end) {
		burn()
	}
}

// join tells that a Runtime watches. The last one to leave lights the fuse if
// it had asked for that.
func (f *fuse) join(grace time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers++
	f.grace = grace
	if f.orphan != nil {
		f.orphan.Stop()
		f.orphan = nil
	}
}

func (f *fuse) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers--
	if f.watchers == 0 && f.grace > 0 {
		f.orphan = time.AfterFunc(f.grace, burn)
	}
}

// watch holds the connection of the Runtime that owns the sandbox. The host
// sees by it that the sandbox lives, the init that its Runtime does. A further
// Request on it moves the deadline.
func (s *server) watch(c *conn, r *wire.Request) error {
	s.fuse.join(r.Orphan)
	defer s.fuse.leave()
	for {
		s.fuse.set(r.Deadline)
		if r.Bounds != (wire.Bounds{}) {
			if err := s.groups.bound(r.Bounds); err != nil {
				return err
			}
		}
		if err := c.send(wire.KindOK, nil); err != nil {
			return err
		}
		kind, payload, err := c.in.Next()
		if err != nil || kind != wire.KindRequest {
			return nil
		}
		if err := r.Decode(payload); err != nil {
			return err
		}
	}
}
