package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Mount makes a volume ready for use, and first makes it, of that size in
// bytes, if there is none. A volume that exists keeps its size. It returns the
// volume's folder, which belongs to the user and group with mode 0755; it is
// the same each time, also when the volume is mounted already.
//
// Mounting is not broken off when ctx ends, only waiting for its turn is, and
// making the first volume of a size.
func (s *Store) Mount(ctx context.Context, name string, size int64, uid, gid int) (dir string, err error) {
	release, err := s.hold(ctx, name)
	if err != nil {
		return "", err
	}
	defer release()
	dir, err = s.mount(ctx, name, size)
	if err == nil {
		err = own(dir, uid, gid)
		step("owned")
	}
	return dir, named(name, errors.Join(err, s.stamp(name)))
}

func (s *Store) mount(ctx context.Context, name string, size int64) (dir string, err error) {
	switch exists, err := s.exists(name); {
	case err != nil:
		return "", err
	case !exists:
		if err := s.create(ctx, name, size); err != nil {
			return "", err
		}
	}
	if s.plain(name) {
		return s.path(volumes, name, dataName), nil
	}
	mounted, err := s.mounted()
	if err != nil {
		return "", err
	}
	at := s.path(points, name)
	if !mounted[at] {
		err = s.attach(s.path(volumes, name, imageName), at)
	}
	return s.path(points, name, dataName), err
}

func (s *Store) exists(name string) (bool, error) {
	_, err := os.Lstat(s.path(volumes, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// plain reports whether a volume is a plain folder, as it stays even if this
// machine comes to be able to do better.
func (s *Store) plain(name string) bool {
	_, err := os.Lstat(s.path(volumes, name, dataName))
	return err == nil
}

// attach mounts an image. Until the last step the mount is this process's
// alone, so that it goes with it.
func (s *Store) attach(image, at string) error {
	fd, err := mountImage(image)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	step("mounted")
	if err := unix.Mkdirat(fd, dataName, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	s.points.Lock()
	defer s.points.Unlock()
	if err := s.enterPoints(); err != nil {
		return err
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	step("attached")
	return nil
}

// own gives a volume's folder to its user, unless it is: a volume that nobody
// writes to is not written to here, so that it is unmounted sooner.
func own(dir string, uid, gid int) error {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return err
	}
	if int(stat.Uid) == uid && int(stat.Gid) == gid && stat.Mode&0o7777 == 0o755 {
		return nil
	}
	return errors.Join(f.Chown(uid, gid), f.Chmod(0o755))
}

// stamp notes that a volume has just been used.
func (s *Store) stamp(name string) error {
	now := time.Now()
	err := os.Chtimes(s.path(volumes, name), now, now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
