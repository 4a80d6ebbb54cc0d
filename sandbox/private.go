//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanzoai/sandbox/internal/volume"
)

// privatePrefix begins the names of private Roots. While one is being made it
// has a dot before it, so that whatever bears the name is locked by its
// Runtime, or has none any more.
const privatePrefix = "sandbox-"

// privateMark is a file that tells a private Root from any that somebody named
// so. It is the last thing to be removed.
const privateMark = "private"

func (r *Runtime) openPrivateRoot() error {
	dir, err := os.MkdirTemp("", "."+privatePrefix)
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	r.private, r.root = true, dir
	if r.lock, err = lockRoot(dir); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, privateMark), nil, 0o600); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	root := filepath.Join(filepath.Dir(dir), filepath.Base(dir)[1:])
	if err := os.Rename(dir, root); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	r.root = root
	return nil
}

// sweepPrivateRoots removes the private Roots of processes that were killed:
// nobody else will.
func (r *Runtime) sweepPrivateRoots() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), privatePrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if dir == r.root || !ours(dir) {
			continue
		}
		if err := r.sweepPrivateRoot(dir); err != nil {
			r.log.Warn("remove a private root that was left behind", "root", dir, "error", err)
		}
	}
}

// ours reports whether dir is a folder that this user made for itself alone.
// Anybody may make one of the same name in a shared temporary folder.
func ours(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

func (r *Runtime) sweepPrivateRoot(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, privateMark)); err != nil {
		return nil // somebody's own
	}
	lock, err := lockRoot(dir)
	if err != nil {
		return nil // its Runtime lives
	}
	volumes, err := volume.Open(filepath.Join(dir, "volumes"))
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	dead := &Runtime{
		private: true, root: dir, lock: lock, log: r.log, ctx: r.ctx, boot: r.boot, volumes: volumes, cgroups: r.cgroups,
		step: func(string) {}, engine: &runsc{path: r.engine.path, name: r.engine.name, root: filepath.Join(dir, "engine")},
	}
	entries, err := os.ReadDir(dead.folder("sandboxes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, lock.Close())
	}
	for _, e := range entries {
		if !validID(e.Name()) {
			continue
		}
		left, err := dead.found(e.Name())
		if err != nil { // nobody can mend its row: there is no Runtime for it
			left = dead.instance(row{Info: Info{ID: e.Name(), Status: StatusPending}})
		}
		if err := left.scrap(); err != nil {
			return errors.Join(err, lock.Close())
		}
	}
	return dead.release()
}
