package hostview

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// store is the folder that keeps skeletons, each in a folder named by its digest. Beside them are
// ".new-*", skeletons being made, and ".old-*", ones being removed; both are rubbish when nobody holds
// the lock.
type store struct{ dir string }

// openStore makes dir if needed, and refuses one in which somebody else could plant a skeleton.
func openStore(dir string) (store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return store{}, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return store{}, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return store{}, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return store{}, err
	}
	if uid := owner(info); uid != 0 && uid != os.Geteuid() {
		return store{}, fmt.Errorf("%s: belongs to user %d", dir, uid)
	}
	if info.Mode()&0o022 != 0 {
		return store{}, fmt.Errorf("%s: is writable by others (%v)", dir, info.Mode())
	}
	return store{dir: dir}, nil
}

// lock waits for the store. The kernel gives it back if the holder dies.
func (s store) lock() (unlock func(), err error) {
	f, err := os.Open(s.dir)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", s.dir, err)
	}
	return func() { f.Close() }, nil
}

// install returns the folder of the plan's skeleton, making it if it is not there in good order.
func (s store) install(p *plan) (string, error) {
	root := filepath.Join(s.dir, p.digest())
	if p.check(root) == nil {
		return root, nil // the usual case needs no lock, and no right to write
	}
	unlock, err := s.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if p.check(root) == nil {
		return root, nil // another process made it meanwhile
	}
	return root, s.replace(root, p)
}

// replace makes the skeleton out of sight and puts it at root. Only a damaged one can be there already.
func (s store) replace(root string, p *plan) error {
	made, err := os.MkdirTemp(s.dir, ".new-")
	if err != nil {
		return err
	}
	if err := s.put(root, made, p); err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	return nil
}

func (s store) put(root, made string, p *plan) error {
	if err := p.write(made); err != nil {
		return err
	}
	if _, err := s.aside(root); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(made, root)
}

// aside moves a skeleton out of sight in one step, and returns the folder that it is in now.
func (s store) aside(root string) (string, error) {
	if _, err := os.Lstat(root); err != nil {
		return "", err
	}
	old, err := os.MkdirTemp(s.dir, ".old-")
	if err != nil {
		return "", err
	}
	return old, os.Rename(root, filepath.Join(old, filepath.Base(root)))
}

var (
	digestName = regexp.MustCompile(`^[0-9a-f]{32}$`)
	rubbish    = regexp.MustCompile(`^\.(new|old)-`)
)

// Prune removes the skeletons that Build left in dir, except those whose digest, the last element of
// View.Root, is in keep, and what crashed builds left behind. Keep must name all that sandboxes still use,
// as other processes do too. One that has something mounted in it is not touched, and is an error.
func Prune(dir string, keep map[string]bool) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := openStore(dir)
	if err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	list, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range list {
		if name := d.Name(); rubbish.MatchString(name) || digestName.MatchString(name) && !keep[name] {
			errs = append(errs, s.remove(name))
		}
	}
	return errors.Join(errs...)
}

// remove removes a skeleton, or rubbish. It must not descend into a mount: behind it is the host's /usr.
func (s store) remove(name string) error {
	dir := filepath.Join(s.dir, name)
	mounted, err := mountedIn(dir)
	if err != nil {
		return err
	}
	if mounted != "" {
		return fmt.Errorf("%s: in use: %s is mounted", dir, mounted)
	}
	if digestName.MatchString(name) {
		// Moved first, for a Build that looks now must see all of it or nothing.
		if dir, err = s.aside(dir); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}
