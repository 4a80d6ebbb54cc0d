package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// MinSize is the least that a volume can be, in bytes.
const MinSize = 16 << 20

// create makes a volume where it is not seen, and gives it its name.
func (s *Store) create(ctx context.Context, name string, size int64) error {
	if size < MinSize {
		return fmt.Errorf("a size of %d bytes: the least is %d", size, MinSize)
	}
	tmp, err := os.MkdirTemp(s.path(halfMade), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	switch lacks := s.Enforced(); {
	case lacks == nil:
		err = s.copyTemplate(ctx, filepath.Join(dir, imageName), size)
	case errors.Is(lacks, errTrial):
		err = lacks
	default:
		err = os.Mkdir(filepath.Join(dir, dataName), 0o700)
	}
	if err = errors.Join(err, syncFolder(dir)); err != nil {
		return err
	}
	step("copied")
	if err := os.Rename(dir, s.path(volumes, name)); err != nil {
		return err
	}
	step("named")
	return syncFolder(s.path(volumes))
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
