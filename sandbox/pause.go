//go:build linux

package sandbox

import (
	"context"
	"errors"
	"time"
)

// Pause implements Pauser.
func (r *Runtime) Pause(ctx context.Context, id string) error {
	s, err := r.find("pause", id)
	if err == nil {
		err = r.carryOut(ctx, s.pause)
	}
	return opError("pause", id, err)
}

// Resume implements Pauser. The start of the engine goes on when ctx ends.
func (r *Runtime) Resume(ctx context.Context, id string) error {
	s, err := r.find("resume", id)
	if err == nil {
		err = r.carryOut(ctx, s.resume)
	}
	return opError("resume", id, err)
}

// opError says what failed, once.
func opError(op, id string, err error) error {
	if _, said := errors.AsType[*Error](err); err == nil || said {
		return err
	}
	return &Error{Op: op, ID: id, Err: err}
}

// pause ends the engine and keeps the volume. It is no error if that has been
// done.
func (s *instance) pause() error {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	err := s.mayPause()
	if err == nil && s.row.Status == StatusRunning {
		s.leaving, s.row.Next = s.parked, StatusParked
	}
	now := s.row.Status
	s.mu.Unlock()
	if err != nil || now == StatusParked {
		return err
	}
	s.runtime.step("pause: begin")
	if err := s.write(false); err != nil {
		return err
	}
	s.runtime.step("pause: noted")
	return s.park("")
}

func (s *instance) mayPause() error {
	switch {
	case s.leaving == ErrEnded: //nolint:errorlint // set by us
		return ErrEnded
	case s.row.Status == StatusParked:
		return nil
	case s.row.Status != StatusRunning:
		return notNow(s.id, s.row.Status)
	case s.row.Volume == "":
		return &ConflictError{ID: s.id, Status: s.row.Status, Why: "sandbox has no volume, so its files would be lost: lease one with a Project or a Disk"}
	}
	return nil
}

// park does what is left of a pause that is noted in the row; also of a
// sandbox whose engine is gone. After an error it can be tried again. The
// caller holds s.moving.
func (s *instance) park(reason Reason) error {
	ctx, cancel := s.cleanup()
	defer cancel()
	if err := s.stop(ctx); err != nil {
		return err
	}
	s.runtime.step("pause: stopped")
	s.mu.Lock()
	s.row.Status, s.row.Next, s.row.Error, s.leaving = StatusParked, "", "", nil
	s.row.Expires = time.Time{}
	s.note(EventPaused, reason).Flush = s.flushed
	s.mu.Unlock()
	err := s.save(true)
	s.runtime.step("pause: row")
	return err
}

// resume starts a new engine on the files of a parked sandbox. If that fails
// it is parked again. It is no error if it runs.
func (s *instance) resume() error {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	leaving, now, before := s.leaving, s.row.Status, s.row
	s.mu.Unlock()
	switch {
	case leaving == s.parked: //nolint:errorlint // set by us
		return &ConflictError{ID: s.id, Status: now, Why: "the last pause of this sandbox did not succeed: pause it again"}
	case leaving != nil:
		return leaving
	case now == StatusRunning:
		s.mu.Lock()
		s.touch(time.Now())
		s.mu.Unlock()
		return nil
	case now != StatusParked:
		return notNow(s.id, now)
	}
	ctx, cancel := s.runtime.bound(context.WithoutCancel(s.runtime.ctx))
	defer cancel()
	image, err := s.findImage(ctx, before.Digest)
	if err != nil {
		return err
	}
	if err := s.runtime.admit(s); err != nil {
		return err
	}
	if err := s.revive(ctx, image); err != nil {
		return errors.Join(err, s.parkAgain(&before))
	}
	return nil
}

func (s *instance) revive(ctx context.Context, image *Image) error {
	s.runtime.step("resume: begin")
	event := EventResumed
	s.mu.Lock()
	if !s.row.Staged {
		s.row.TTL = min(s.class().TTL, s.runtime.clocks.maxLife)
	} else {
		event, s.row.Staged = EventRunning, false
		s.row.Env = environment(image, s.row.Env)
	}
	now := time.Now()
	s.row.Created, s.row.Used, s.row.Connected = now, now, time.Time{}
	s.row.Expires = now.Add(s.row.TTL)
	s.row.Next, s.reviving = StatusRunning, true
	s.mu.Unlock()
	if err := s.write(false); err != nil {
		return err
	}
	s.runtime.step("resume: noted")
	return s.start(ctx, image, event)
}

// parkAgain undoes a resume that failed.
func (s *instance) parkAgain(before *row) error {
	ctx, cancel := s.cleanup()
	defer cancel()
	err := s.stop(ctx)
	s.mu.Lock()
	s.row.Status, s.row.Next, s.row.TTL = StatusParked, "", before.TTL
	s.reviving = false
	s.row.Created, s.row.Expires = before.Created, before.Expires
	s.row.Used, s.row.Connected = before.Used, before.Connected
	s.row.Staged, s.row.Env = before.Staged, before.Env
	s.mu.Unlock()
	return errors.Join(err, s.write(true))
}
