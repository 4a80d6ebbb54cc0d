package image

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A lock is held by who makes, uses or removes a part of the store. The kernel
// gives it back when its holder dies. Goroutines of one process exclude each
// other by it as processes do.
type lock struct{ f *os.File }

// lockPoll is how often a lock that another has is asked for.
const lockPoll = 20 * time.Millisecond

// lock takes a lock by name, to share it or not, when it can be had.
func (s *Store) lock(ctx context.Context, name string, how int) (*lock, error) {
	wait := time.NewTicker(lockPoll)
	defer wait.Stop()
	for {
		l, err := s.tryLock(name, how)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-wait.C:
		}
	}
}

// tryLock takes a lock if it can be had at once, or returns EWOULDBLOCK.
func (s *Store) tryLock(name string, how int) (*lock, error) {
	path := s.path(locksDir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	// Whoever removed a part of the store has removed its lock as well.
	mine, err := f.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(path); err == nil && !os.SameFile(mine, there) {
			err = os.ErrNotExist
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		err = unix.EWOULDBLOCK
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return &lock{f}, nil
}

func (l *lock) unlock() { l.f.Close() }

// made returns with a shared lock on a part of the store that exists, having
// had it made if it did not.
func (s *Store) made(ctx context.Context, name, path string, make func() error) (*lock, error) {
	for {
		l, err := s.lock(ctx, name, unix.LOCK_SH)
		if err != nil {
			return nil, err
		}
		if exists(path) {
			return l, nil
		}
		l.unlock()
		if l, err = s.lock(ctx, name, unix.LOCK_EX); err != nil {
			return nil, err
		}
		if !exists(path) {
			err = make()
		}
		l.unlock() // between the two it may be removed: hence the loop
		if err != nil {
			return nil, err
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
