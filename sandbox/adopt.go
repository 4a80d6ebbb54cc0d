package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/internal/hostview"
)

const (
	// adoptAtOnce is how many sandboxes New takes over at a time.
	adoptAtOnce = 16
	// adoptTimeout is how long a sandbox that lives may take to answer a new
	// Runtime. One that does not has been stopped from outside, or broken
	// from inside, and counts as lost.
	adoptTimeout = 5 * time.Second
)

// adopt takes over the sandboxes of an earlier Runtime, finishes what it had
// begun, and removes what it left behind.
func (r *Runtime) adopt() error {
	entries, err := os.ReadDir(r.folder("sandboxes"))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, adoptAtOnce)
	for _, e := range entries {
		if !validID(e.Name()) {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s := r.found(e.Name())
			if err := s.adopt(); err != nil {
				r.log.Error("take over a sandbox", "id", s.id, "error", err)
			}
		})
	}
	wg.Wait()
	return nil
}

// found returns the sandbox that has a folder. Without a readable row it is
// one that was being made, or unmade: fit to be removed.
func (r *Runtime) found(id string) *instance {
	row, err := readRow(filepath.Join(r.folder("sandboxes"), id))
	if err != nil {
		r.log.Info("a sandbox without a row", "id", id, "error", err)
		row.Info = Info{ID: id, Status: StatusPending}
	}
	s := r.instance(row)
	if err := s.findGroup(); err != nil {
		r.log.Error("a sandbox without its control group", "id", id, "error", err)
	}
	s.readStamps()
	return s
}

// adopt puts the sandbox on the list and makes of it what its row says. What
// cannot be done now, the reaper tries again.
func (s *instance) adopt() error {
	s.runtime.mu.Lock()
	s.runtime.sandboxes[s.id] = s
	s.runtime.mu.Unlock()
	switch {
	case s.row.Next == statusEnded:
		return s.end(s.row.Reason, s.row.Purge)
	case s.row.Status == StatusPending: // nobody has been told its id
		return s.end(ReasonStartFailed, false)
	case s.row.Status == StatusRunning && s.row.Next == "":
		return s.takeOver()
	case s.row.Status == StatusError && s.row.Next == "":
		return s.tidy(func(ctx context.Context) error { return errors.Join(s.stop(ctx), s.save(false)) })
	case s.row.Next == "": // parked, and it is
		return s.tidy(func(context.Context) error { return s.save(false) })
	}
	// A pause or a resume that was cut short.
	return s.tidy(func(context.Context) error { return s.park("") })
}

// tidy is a step of an adoption.
func (s *instance) tidy(do func(ctx context.Context) error) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	ctx, cancel := s.cleanup()
	defer cancel()
	return do(ctx)
}

// takeOver goes on with a sandbox that runs, or with what is left of it.
func (s *instance) takeOver() error {
	reason, err := s.reach()
	if reason == "" {
		return err
	}
	s.runtime.log.Info("a sandbox did not outlive its runtime", "id", s.id, "reason", reason, "error", err)
	if reason == ReasonExpired || s.row.Volume == "" {
		return s.end(reason, false)
	}
	return s.tidy(func(context.Context) error { return s.park(reason) })
}

// reach makes contact with a sandbox that should run, or says why it is gone.
func (s *instance) reach() (Reason, error) {
	if s.row.Boot != s.runtime.boot {
		return ReasonReboot, nil
	}
	if len(s.row.Engine) == 0 {
		return ReasonLost, nil
	}
	alive, err := s.row.Engine[0].alive()
	if !alive {
		if !time.Now().Before(s.row.Expires) {
			return ReasonExpired, err
		}
		return ReasonLost, err
	}
	ctx, cancel := context.WithTimeout(s.runtime.ctx, adoptTimeout)
	defer cancel()
	l := s.newLife()
	if err := s.openWatch(ctx, l); err != nil {
		return ReasonLost, err
	}
	s.moving.Lock()
	defer s.moving.Unlock()
	return "", s.resumeWatch(l)
}

// resumeWatch is enter for a sandbox that has been running all along.
func (s *instance) resumeWatch(l *life) error {
	s.mu.Lock()
	s.life = l
	s.mu.Unlock()
	s.watch(l)
	return s.save(false)
}

// collect removes what no sandbox uses any more: executables of earlier
// programs, and earlier views of this machine.
func (r *Runtime) collect() error {
	used := map[string]bool{filepath.Base(r.bin): true}
	views := map[string]bool{}
	for _, s := range r.all() {
		used[filepath.Base(s.row.Init)] = true
		views[filepath.Base(s.row.Root)] = true
	}
	entries, err := os.ReadDir(r.folder("bin"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !used[e.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.folder("bin"), e.Name())))
		}
	}
	host := filepath.Join(r.folder("images"), HostImage)
	if _, missing := os.Stat(host); missing != nil {
		return err
	}
	return errors.Join(err, hostview.Prune(host, views))
}
