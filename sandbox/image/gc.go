package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// Remove forgets a name, or all names of a digest. The image itself goes with
// the next GC, unless it has another name or a sandbox uses it.
func (s *Store) Remove(name string) error {
	h, err := s.find(name)
	if err != nil {
		return err
	}
	records, err := s.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range records {
		byDigest := name == h.String() && r.Digest == name
		if n, err := parseName(name); byDigest || err == nil && r.Name == n.String() {
			errs = append(errs, os.Remove(s.namePath(r.Name)))
		}
	}
	return errors.Join(errs...)
}

// Collected is what GC has removed.
type Collected struct {
	Images, Layers, Blobs, Temporary int
	Bytes                            int64 // of what was removed, on the disk
}

// GC removes images that have no name and that no sandbox uses, then layers
// that no image has, and what crashes left behind. If Config.MaxStore is set
// and exceeded, names of images that can be pulled again are forgotten first,
// those that have not been used for the longest time at the head.
//
// What is in use, or being made, is left alone, also that of other processes.
func (s *Store) GC(ctx context.Context) (Collected, error) {
	g := &collector{Store: s}
	if err := errors.Join(g.temporary(), g.collect(ctx)); err != nil {
		return g.done, err
	}
	for s.cfg.MaxStore > 0 {
		size, err := s.size()
		if err != nil || size <= s.cfg.MaxStore {
			return g.done, err
		}
		evicted, err := g.evict()
		if err != nil || !evicted {
			return g.done, err
		}
		if err := g.collect(ctx); err != nil {
			return g.done, err
		}
	}
	return g.done, nil
}

type collector struct {
	*Store
	done Collected
}

// collect removes what nothing refers to.
func (g *collector) collect(ctx context.Context) error {
	return errors.Join(g.images(ctx), g.layers(ctx), g.blobs())
}

// images removes those without a name or a user.
func (g *collector) images(ctx context.Context) error {
	entries, err := os.ReadDir(g.path(imagesDir))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, g.image(v1.Hash{Algorithm: "sha256", Hex: e.Name()}))
	}
	return errors.Join(errs...)
}

func (g *collector) image(h v1.Hash) error {
	// Whoever gives it a name or a user holds this lock meanwhile.
	l, err := g.tryLock(imageLock(h), unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.unlock()
	records, err := g.names()
	if err != nil {
		return err
	}
	named := slices.ContainsFunc(records, func(r *nameRecord) bool { return r.Digest == h.String() })
	used, err := g.used(h)
	if named || used || err != nil {
		return err
	}
	g.done.Images++
	return errors.Join(g.discard(g.path(imagesDir, h.Hex)), os.RemoveAll(g.path(usesDir, h.Hex)), os.Remove(l.f.Name()))
}

// used reports whether a sandbox has an image, and forgets those that are
// gone.
func (s *Store) used(h v1.Hash) (bool, error) {
	dir := s.path(usesDir, h.Hex)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	used := false
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		holder, readErr := os.ReadFile(path)
		if readErr != nil {
			err = errors.Join(err, readErr)
			continue
		}
		_, gone := os.Lstat(string(holder))
		switch {
		case gone == nil:
			used = true
		case errors.Is(gone, fs.ErrNotExist):
			err = errors.Join(err, os.Remove(path))
		default:
			err = errors.Join(err, gone) // nothing can be said: keep it
		}
	}
	return used, err
}

// discard removes a part of the store, in one step as others see it.
func (g *collector) discard(path string) error {
	g.done.Bytes += sizeOf(path)
	w, err := g.workspace()
	if err != nil {
		return err
	}
	return errors.Join(os.Rename(path, w.path("old")), w.remove())
}

// sizeOf is what a tree takes on the disk and nothing else does: files that
// other trees have too do not count.
func sizeOf(path string) (size int64) {
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(name, &st) == nil && (st.Nlink == 1 || d.IsDir()) {
			size += st.Blocks * 512
		}
		return nil //nolint:nilerr // it is a figure for people
	})
	return size
}

// layers removes those that no image has.
func (g *collector) layers(ctx context.Context) error {
	entries, err := os.ReadDir(g.path(layersDir))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, g.layer(e.Name()))
	}
	return errors.Join(errs...)
}

func (g *collector) layer(hex string) error {
	l, err := g.tryLock("layer-"+hex, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil // an image is being made of it
	}
	if err != nil {
		return err
	}
	defer l.unlock()
	images, err := g.List()
	if err != nil {
		return err
	}
	for _, info := range images {
		if slices.Contains(info.Layers, "sha256:"+hex) {
			return nil
		}
	}
	g.done.Layers++
	return errors.Join(g.discard(g.path(layersDir, hex)), os.Remove(l.f.Name()))
}

// pullLock is shared by all who fetch: what they have fetched belongs to
// nothing yet.
const pullLock = "pull"

// blobs removes those that no image has, unless something is being fetched.
func (g *collector) blobs() error {
	l, err := g.tryLock(pullLock, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.unlock()
	has, err := g.referred()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(g.path(blobsDir))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if has[e.Name()] {
			continue
		}
		g.done.Blobs++
		g.done.Bytes += sizeOf(g.path(blobsDir, e.Name()))
		errs = append(errs, os.Remove(g.path(blobsDir, e.Name())))
	}
	return errors.Join(errs...)
}

// referred returns the blobs that images have.
func (g *collector) referred() (map[string]bool, error) {
	entries, err := os.ReadDir(g.path(imagesDir))
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, e := range entries {
		var m v1.Manifest
		if err := readJSON(g.path(blobsDir, e.Name()), &m); err != nil {
			return nil, err
		}
		has[e.Name()], has[m.Config.Digest.Hex] = true, true
		for _, d := range m.Layers {
			has[d.Digest.Hex] = true
		}
	}
	return has, nil
}

// temporaryAge is how old what nobody has locked must be to be nobody's: who
// makes it locks it at once.
const temporaryAge = time.Minute

// temporary removes what nobody works in any more.
func (g *collector) temporary() error {
	entries, err := os.ReadDir(g.path(tmpDir))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := g.path(tmpDir, e.Name())
		d, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if info, err := d.Stat(); err == nil && time.Since(info.ModTime()) < temporaryAge {
			d.Close()
			continue
		}
		if unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			g.done.Temporary++
			g.done.Bytes += sizeOf(path)
			errs = append(errs, os.RemoveAll(path))
		}
		d.Close()
	}
	return errors.Join(errs...)
}
