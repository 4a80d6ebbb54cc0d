package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox/image/internal/tree"
	"github.com/hanzoai/sandbox/sandbox/image/recipe"
)

// layersAtOnce is how many layers of an image are fetched and unpacked at a
// time.
const layersAtOnce = 3

// put takes an image into the store and returns its digest. What it has of it
// already it does not fetch. On the way back the image is known by no name:
// who asked for it holds the lock until it has one, or a user.
func (s *Store) put(ctx context.Context, src *source, m *meter) (*lock, *described, error) {
	if os.Geteuid() != 0 {
		return nil, nil, errNotRoot
	}
	d, err := s.describe(src)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.made(ctx, imageLock(d.digest), s.path(imagesDir, d.digest.Hex), func() error {
		return s.make(ctx, src, d, m)
	})
	return l, d, err
}

func imageLock(h v1.Hash) string { return "image-" + h.Hex }

// make fetches an image's layers and lays them over one another.
func (s *Store) make(ctx context.Context, src *source, d *described, m *meter) (err error) {
	pulling, err := s.lock(ctx, pullLock, unix.LOCK_SH)
	if err != nil {
		return err
	}
	defer pulling.unlock()
	m.expect(d.manifest.Layers)
	budget := &tree.Budget{MaxBytes: s.cfg.MaxImage, MaxEntries: s.cfg.MaxEntries}
	layers := make([]*tree.Layer, len(d.manifest.Layers))
	locks := make([]*lock, len(layers))
	defer func() {
		for _, l := range locks {
			if l != nil {
				l.unlock()
			}
		}
	}()
	group, fetching := errgroup.WithContext(ctx)
	group.SetLimit(layersAtOnce)
	for i, desc := range d.manifest.Layers {
		group.Go(func() error {
			f := &fetch{store: s, src: src, desc: desc, diffID: d.config.RootFS.DiffIDs[i], budget: budget, meter: m}
			var err error
			locks[i], layers[i], err = f.layer(fetching)
			if err != nil {
				return fmt.Errorf("layer %s: %w", desc.Digest, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	m.step("link")
	return s.assemble(ctx, src, d, layers)
}

// assemble makes an image's tree of its layers'.
func (s *Store) assemble(ctx context.Context, src *source, d *described, layers []*tree.Layer) (err error) {
	if err := s.writeBlobs(src, d); err != nil {
		return err
	}
	w, err := s.workspace()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.remove()) }()
	root := w.path("image/root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	info := describeImage(d)
	for i, l := range layers {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := tree.Lay(root, s.path(layersDir, d.config.RootFS.DiffIDs[i].Hex, treeDir), l); err != nil {
			return err
		}
		info.Size += l.Bytes
		info.Entries += l.Entries
	}
	if err := furnish(root); err != nil {
		return err
	}
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.path("image/"+infoFile), b, 0o600); err != nil {
		return err
	}
	return w.keep("image", s.path(imagesDir, d.digest.Hex))
}

func describeImage(d *described) *Info {
	c := d.config
	info := &Info{
		Digest: d.digest.String(), Platform: c.OS + "/" + c.Architecture, Created: c.Created.Time,
		Recipe: c.Config.Labels[recipe.Label],
		Env:    c.Config.Env, User: c.Config.User, Workdir: c.Config.WorkingDir,
		Entrypoint: c.Config.Entrypoint, Cmd: c.Config.Cmd,
	}
	for _, h := range c.RootFS.DiffIDs {
		info.Layers = append(info.Layers, h.String())
	}
	return info
}

// writeBlobs keeps what describes an image.
func (s *Store) writeBlobs(src *source, d *described) error {
	for h, b := range map[v1.Hash][]byte{d.digest: src.manifest, d.manifest.Config.Digest: src.config} {
		if exists(s.blobPath(h)) {
			continue
		}
		if err := writeFile(s.blobPath(h), b); err != nil {
			return err
		}
	}
	return nil
}

// use notes that a sandbox, whose folder is holder, has an image.
func (s *Store) use(h v1.Hash, holder string) error {
	if holder == "" {
		return nil
	}
	dir := s.path(usesDir, h.Hex)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, filepath.Base(holder)), []byte(holder)); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(s.path(imagesDir, h.Hex, infoFile), now, now)
}
