//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// orphanGrace is how long a sandbox on a private Root outlives its Runtime:
// nothing else will ever end it.
const orphanGrace = 10 * time.Second

// start boots the engine, waits for the init and enters the sandbox as
// running. What a failed start leaves, the caller gives back by stop. The
// caller holds s.moving.
func (s *instance) start(ctx context.Context, image *Image, event EventKind) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no start within %v: %w", startTimeout, ErrTimeout))
	defer cancel()
	s.mu.Lock()
	s.row.Init, s.row.Root = s.bin, image.Root
	s.mu.Unlock()
	volume, err := s.mount(ctx)
	if err != nil {
		return err
	}
	s.runtime.step("start: mounted")
	if err := s.prepare(bundleSpec(s.places, image, &layout{
		workdir: s.row.Workdir, volume: volume, limits: s.row.Limits, disk: s.class().Disk,
	})); err != nil {
		return err
	}
	if err := s.makeGroup(); err != nil {
		return err
	}
	s.runtime.step("start: bundle")
	if err := s.runtime.engine.start(ctx, s.id, s.places, s.group); err != nil {
		return err
	}
	s.runtime.step("start: engine")
	if err := s.identify(); err != nil {
		return err
	}
	l := s.newLife()
	if err := s.meet(ctx, l); err != nil {
		return err
	}
	if err := s.limitCPU(); err != nil {
		return err
	}
	s.runtime.step("start: met")
	return s.enter(l, event)
}

// enter makes the sandbox a running one and starts watching over it.
func (s *instance) enter(l *life, event EventKind) error {
	r := s.runtime
	s.mu.Lock()
	s.life, s.leaving, s.reviving = l, nil, false
	s.row.Status, s.row.Next = StatusRunning, ""
	s.note(event, "")
	s.mu.Unlock()
	if err := s.save(true); err != nil {
		return err
	}
	r.step("start: row")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	s.watch(l)
	return nil
}

// watch starts what goes on beside a life.
func (s *instance) watch(l *life) {
	s.runtime.tasks.Go(func() { s.watchOver(l) })
	s.runtime.tasks.Go(func() { s.watchMemory(l) })
	if s.class().Screen {
		s.runtime.tasks.Go(func() { s.startScreen(l) })
	}
}

// identify notes which processes the engine is.
func (s *instance) identify() error {
	engine := s.runtime.engine.processes(s.id)
	if len(engine) == 0 {
		return &startFailedError{err: errors.New("it ended at once"), log: lastLines(s.initLog, s.engineLog)}
	}
	s.mu.Lock()
	s.row.Engine, s.row.Boot = engine, s.runtime.boot
	s.mu.Unlock()
	return nil
}

// meet opens the watch as soon as the init answers.
func (s *instance) meet(ctx context.Context, l *life) error {
	wait := time.NewTicker(meetInterval)
	defer wait.Stop()
	for {
		err := s.openWatch(ctx, l)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*wire.Error](err); ok {
			return &startFailedError{err: refused}
		}
		if alive, _ := s.row.Engine[0].alive(); !alive {
			return &startFailedError{err: errors.New("it ended at once"), log: lastLines(s.initLog, s.engineLog)}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
		}
	}
}

const meetInterval = time.Millisecond

func (s *instance) openWatch(ctx context.Context, l *life) (err error) {
	orphan := time.Duration(0)
	if s.runtime.private {
		orphan = orphanGrace
	}
	l.watch, err = l.client.Watch(ctx, s.info().Expires, orphan)
	return err
}
