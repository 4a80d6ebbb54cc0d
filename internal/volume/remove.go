package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hanzoai/sandbox/internal/rmtree"
)

// Remove unmounts a volume and removes it with all that is in it. It is no error
// if there is none.
func (s *Store) Remove(ctx context.Context, name string) error {
	release, err := s.hold(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	return named(name, s.remove(ctx, name))
}

func (s *Store) remove(ctx context.Context, name string) error {
	at := s.path(points, name)
	mounted, err := s.mounted()
	if err != nil {
		return err
	}
	if mounted[at] {
		if _, err := s.detach(ctx, at); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp(s.path(halfMade), "old-")
	if err != nil {
		return err
	}
	// The name goes first and at once: what a crash leaves is no volume.
	err = os.Rename(s.path(volumes, name), filepath.Join(tmp, name))
	step("set aside")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, rmtree.Remove(tmp))
}
