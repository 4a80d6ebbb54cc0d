package sandboxtest

import (
	"context"
	"fmt"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// Pause implements sandbox.Pauser. It returns when every program has.
func (m *Memory) Pause(_ context.Context, id string) error {
	return m.do("pause", id, (*instance).pause)
}

// Resume implements sandbox.Pauser.
func (m *Memory) Resume(_ context.Context, id string) error {
	return m.do("resume", id, (*instance).resume)
}

func (s *instance) pause() error {
	defer s.move()()
	switch now, err := s.standing(); {
	case err != nil:
		return err
	case now == sandbox.StatusParked:
		return nil
	case s.info.Volume == "":
		return &sandbox.ConflictError{ID: s.id, Status: now, Why: "sandbox has no volume: lease one with a Project or a Disk"}
	}
	s.stop(s.notNow(sandbox.StatusParked))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Status, s.info.Expires, s.leaving = sandbox.StatusParked, time.Time{}, nil
	return nil
}

func (s *instance) resume() error {
	defer s.move()()
	now, err := s.standing()
	if err != nil || now == sandbox.StatusRunning {
		return err
	}
	return s.memory.admit(s, classes[s.info.Class].TTL)
}

// standing is the status that a change begins with; none can once the sandbox
// is about to end.
func (s *instance) standing() (sandbox.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info.Status, s.leaving
}

// notNow is the conflict of a use with a status.
func (s *instance) notNow(now sandbox.Status) error {
	return &sandbox.ConflictError{ID: s.id, Status: now, Why: fmt.Sprintf("sandbox is %s: resume it first", now)}
}
