package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox"
)

// A Store keeps images. It is safe for concurrent use, also by several
// processes on one folder. It has nothing to close.
type Store struct {
	cfg      Config
	platform *v1.Platform
	local    sandbox.Local
}

// The parts of a store's folder. What has its final name is whole: it is made
// in tmp, brought to the disk and renamed.
const (
	blobsDir  = "blobs/sha256" // manifests, configurations and layers, as they came
	layersDir = "layers"       // layers unpacked, by the digest of their archive
	imagesDir = "images"       // trees of them, by the digest of their manifest
	namesDir  = "names"        // which image a name stands for
	usesDir   = "uses"         // who uses an image
	locksDir  = "locks"
	tmpDir    = "tmp"
)

// Open opens a store, making its folder if there is none. It takes root to
// put anything into it.
func Open(cfg Config) (*Store, error) {
	s := &Store{cfg: cfg, local: sandbox.Local{Dirs: cfg.Dirs}.Cached()}
	var err error
	if s.platform, err = s.cfg.complete(); err != nil {
		return nil, fmt.Errorf("image store: %w", err)
	}
	for _, dir := range []string{"", blobsDir, layersDir, imagesDir, namesDir, usesDir, locksDir, tmpDir} {
		if err := os.MkdirAll(s.path(dir), 0o700); errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("image store: %w: it takes root, or a folder of this user's", err)
		} else if err != nil {
			return nil, fmt.Errorf("image store: %w", err)
		}
	}
	return s, s.checkFolder()
}

// checkFolder refuses a folder in which somebody else could plant an image.
func (s *Store) checkFolder() error {
	info, err := os.Stat(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("image store: %w", err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if !info.IsDir() || int(owner) != os.Geteuid() || info.Mode()&0o022 != 0 {
		return refused(sandbox.ErrUnavailable, "image store: %s must be a folder of this user's that others cannot write to", s.cfg.Dir)
	}
	return nil
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.cfg.Dir}, elem...)...)
}

func (s *Store) blobPath(h v1.Hash) string { return s.path(blobsDir, h.Hex) }

// A workspace is a temporary folder that a crash leaves to GC, which knows by
// the lock whether somebody is still at work in it.
type workspace struct {
	dir  string
	held *os.File
}

func (s *Store) workspace() (*workspace, error) {
	dir, err := os.MkdirTemp(s.path(tmpDir), "")
	if err != nil {
		return nil, err
	}
	held, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &workspace{dir, held}, nil
}

// Temp makes a folder on the store's file system, for what is to become an
// image. GC removes it should this process die before it calls remove.
func (s *Store) Temp() (dir string, remove func() error, err error) {
	w, err := s.workspace()
	if err != nil {
		return "", nil, err
	}
	return w.dir, w.remove, nil
}

func (w *workspace) path(name string) string { return filepath.Join(w.dir, name) }

func (w *workspace) remove() error {
	return errors.Join(os.RemoveAll(w.dir), w.held.Close())
}

// keep brings all that was written to the disk and renames a part of the
// workspace to where it stays.
func (w *workspace) keep(name, to string) error {
	if err := unix.Syncfs(int(w.held.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: w.dir, Err: err}
	}
	if err := os.Rename(w.path(name), to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeFile replaces a small file whole or not at all.
func writeFile(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(path))
}
