//go:build linux

package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
			s, err := r.found(e.Name())
			if err != nil {
				// What it was cannot be known, so nothing of it is touched:
				// the init ends it with its lease.
				r.log.Error("a sandbox whose row cannot be read is left as it is", "id", e.Name(), "error", err)
				return
			}
			if err := s.adopt(); err != nil {
				r.log.Error("take over a sandbox", "id", s.id, "error", err)
			}
		})
	}
	wg.Wait()
	return nil
}

// found returns the sandbox that has a folder. Without a row it is one that
// was being made, or unmade: fit to be removed.
func (r *Runtime) found(id string) (*instance, error) {
	row, err := readRow(filepath.Join(r.folder("sandboxes"), id))
	if errors.Is(err, os.ErrNotExist) {
		row.Info, err = Info{ID: id, Status: StatusPending}, nil
	}
	if err != nil {
		return nil, err
	}
	s := r.instance(row)
	if err := s.findGroup(); err != nil {
		r.log.Error("a sandbox without its control group", "id", id, "error", err)
		s.group = r.cgroups.Group(id) // where it would be, if nothing has moved
	}
	s.readStamps()
	half, _ := filepath.Glob(filepath.Join(s.dir, "."+rowFile+"-*"))
	for _, path := range half {
		os.Remove(path) // of a write that was cut off
	}
	return s, nil
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
	case s.row.Status == StatusParked: // also if it was just being resumed
		return s.tidy(func(ctx context.Context) error {
			if err := s.stop(ctx); err != nil {
				return err
			}
			s.row.Next, s.row.Expires = "", time.Time{}
			return s.save(false)
		})
	}
	// A pause that was cut short.
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
	s.mu.Lock()
	s.row.Next = StatusParked // so that the reaper tries again, if need be
	s.mu.Unlock()
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

// collectVolumes removes the disks of sandboxes that are no more, and unmounts
// what no sandbox has mounted.
func (r *Runtime) collectVolumes() error {
	list, err := r.volumes.List()
	if err != nil {
		return err
	}
	mounted := map[string]bool{}
	for _, s := range r.all() {
		mounted[s.row.Volume] = s.row.Mounted
	}
	ctx, cancel := context.WithTimeout(r.ctx, cleanupTimeout)
	defer cancel()
	var errs []error
	for _, v := range list {
		id, disk := strings.CutPrefix(v.Name, diskPrefix)
		_, gone := os.Lstat(filepath.Join(r.folder("sandboxes"), id))
		switch {
		case disk && errors.Is(gone, os.ErrNotExist):
			errs = append(errs, r.volumes.Remove(ctx, v.Name))
		case v.Mounted && !disk && !mounted[v.Name]:
			_, err := r.volumes.Unmount(ctx, v.Name)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
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
