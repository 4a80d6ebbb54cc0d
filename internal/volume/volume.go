// Package volume keeps folders that outlive the sandboxes that use them, each
// within its quota.
//
// A volume is an ext4 file system in a sparse file, mounted by way of a loop
// device. Where this machine cannot do that, a volume is a plain folder, and
// [Store.Enforced] says why. No program is run to mount or unmount one; the
// first volume of each size takes mkfs.ext4, and the others are copies of what
// that made.
//
// # What it survives
//
// The death of the process at any point: what was half-made is removed by the
// next Open, and what is mounted is found and used by the next Mount. The death
// of the machine: the file system has a journal, which is replayed at the next
// Mount. An image that cannot be mounted is an error, and is kept.
//
// A full disk under the images, for these are promises and take up blocks only
// as they are written. What cannot be written is reported to who syncs, as
// ENOSPC or EIO, also by Unmount; when it is the journal, the volume can only
// be read from then on; and what had been synced before is there at the next
// Mount after disk has been freed.
//
// # Whom it trusts
//
// The kernel here parses these file systems, so an image is never filled with
// blocks from elsewhere: programs in a sandbox write files, by the file
// operations of a folder, and never see the image. What files they write means
// nothing to this package: it removes an image, not the files in it, and
// follows no link in a plain folder.
package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/rmtree"
)

// A Store is a folder that holds volumes. It is safe for concurrent use; no two
// may have the same folder at a time, which its owner sees to.
type Store struct {
	dir   string
	busy  keyed        // a volume or a template that is being worked on
	able  atomic.Bool  // to mount, as was seen
	tried func() error // is try, but for tests

	points sync.Mutex // held while a mount is put into the folder of mount points, or taken out
}

// Parts of a Store's folder.
const (
	volumes   = "volume"   // NAME/image, or NAME/data where it is a plain folder
	templates = "template" // SIZE
	points    = "mount"    // NAME is where the image is mounted
	halfMade  = "tmp"      // what is being made or removed
)

// Parts of a volume.
const (
	imageName = "image"
	dataName  = "data" // of a plain volume, or in the file system: there is lost+found beside it
)

// step is called between steps, for the tests to die there.
var step = func(string) {}

// Open returns the Store in a folder, which is made if it does not exist, and
// repairs what an earlier one left. Volumes that it left mounted stay so.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // as mountinfo has it
	}
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir}
	s.tried = s.try
	for _, name := range []string{volumes, templates, points, halfMade} {
		if err := os.MkdirAll(s.path(name), 0o700); err != nil {
			return nil, err
		}
	}
	return s, s.repair()
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// Enforced returns nil, or why this machine cannot keep a volume within its
// size. New volumes are then plain folders.
func (s *Store) Enforced() error {
	if s.able.Load() {
		return nil
	}
	err := s.tried()
	s.able.Store(err == nil)
	return err
}

// tryFor bounds a trial, which takes some 50 ms.
const tryFor = 30 * time.Second

// errTrial is a trial that failed for a reason, such as a full disk, that says
// nothing of what the machine can do: no volume is made a plain folder for it.
var errTrial = errors.New("no trial")

// try makes and mounts a small volume, which is the only sure answer.
func (s *Store) try() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can mount")
	}
	if _, err := mkfs(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.path(halfMade), "try-")
	if err != nil {
		return errors.Join(errTrial, err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), tryFor) //nolint:forbidigo // the answer is for all callers
	defer cancel()
	image := filepath.Join(dir, imageName)
	if err := makeImage(ctx, image, MinSize); err != nil {
		return errors.Join(errTrial, err)
	}
	fd, err := mountImage(image)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// mkfs finds the program, also for those whose PATH has no place for it.
func mkfs() (string, error) {
	path, err := osexec.LookPath("mkfs.ext4")
	for _, usual := range []string{"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"} {
		if err != nil {
			path, err = osexec.LookPath(usual)
		}
	}
	if err != nil {
		return "", errors.New("there is no mkfs.ext4: install e2fsprogs")
	}
	return path, nil
}

// repair removes what was half-made, and mount points that nothing is mounted
// at, and gives back loop devices that nothing has mounted.
func (s *Store) repair() error {
	errs := []error{s.clear(halfMade, rmtree.Remove)}
	mounted, err := s.mounted()
	if err != nil {
		return err
	}
	errs = append(errs, s.clear(points, func(path string) error {
		if mounted[path] {
			return nil
		}
		return os.Remove(path)
	}), freeLoops(s.dir, func(image string) bool {
		return mounted[s.path(points, filepath.Base(filepath.Dir(image)))]
	}))
	s.points.Lock()
	defer s.points.Unlock()
	return errors.Join(append(errs, s.leavePoints())...)
}

func (s *Store) clear(name string, remove func(path string) error) error {
	entries, err := os.ReadDir(s.path(name))
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, remove(s.path(name, e.Name())))
	}
	return errors.Join(errs...)
}

// hold takes a volume for one caller.
func (s *Store) hold(ctx context.Context, name string) (release func(), err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return s.busy.hold(ctx, name)
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("volume %.80q: %w", name, err)
}
