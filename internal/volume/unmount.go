package volume

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stats say where the time of an Unmount went.
type Stats struct {
	Flush   time.Duration // for what was written to reach the disk
	Unmount time.Duration // for the rest
	// Lazy tells that the volume was in use to the end, and is unmounted only
	// when its last user is gone. It can be mounted again all the same.
	Lazy bool
}

const (
	// busyFor is how long an Unmount waits for who uses the volume.
	busyFor = 2 * time.Second
	busyAsk = 5 * time.Millisecond
)

// Unmount brings to disk what has been written to a volume, and unmounts it. It
// is no error if it is not mounted, or does not exist. When the flush fails,
// that is the error, and the volume is unmounted. When ctx ends before its turn
// or while the volume is in use, it stays mounted.
func (s *Store) Unmount(ctx context.Context, name string) (Stats, error) {
	release, err := s.hold(ctx, name)
	if err != nil {
		return Stats{}, err
	}
	defer release()
	at := s.path(points, name)
	mounted, err := s.mounted()
	if err != nil || !mounted[at] {
		return Stats{}, named(name, err)
	}
	var stats Stats
	start := time.Now()
	flushed := flush(at)
	stats.Flush = time.Since(start)
	step("flushed")
	start = time.Now()
	stats.Lazy, err = s.detach(ctx, at)
	stats.Unmount = time.Since(start)
	return stats, named(name, errors.Join(flushed, err, s.stamp(name)))
}

func flush(at string) error {
	f, err := os.OpenFile(at, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return &os.PathError{Op: "sync", Path: at, Err: err}
	}
	return nil
}

// detach unmounts what is at a mount point, and removes that.
func (s *Store) detach(ctx context.Context, at string) (lazy bool, err error) {
	if lazy, err = unmount(ctx, at); err != nil {
		return lazy, err
	}
	step("unmounted")
	s.points.Lock()
	defer s.points.Unlock()
	return lazy, errors.Join(os.Remove(at), s.leavePoints())
}

func unmount(ctx context.Context, at string) (lazy bool, err error) {
	ask := time.NewTicker(busyAsk)
	defer ask.Stop()
	flags := unix.UMOUNT_NOFOLLOW
	for end := time.Now().Add(busyFor); ; {
		err := unix.Unmount(at, flags)
		lazy = flags&unix.MNT_DETACH != 0
		if err == nil || lazy || !errors.Is(err, unix.EBUSY) {
			return lazy, os.NewSyscallError("unmount", err)
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-ask.C:
		}
		if time.Now().After(end) {
			flags |= unix.MNT_DETACH
		}
	}
}
