package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox"
)

var errNotRoot = &refusal{text: "image store: unpacking takes root: files in an image have owners", kind: sandbox.ErrUnavailable}

// Pull fetches an image from its registry, or looks there whether its tag
// stands for another one by now. The last Progress, of step "done", has its
// digest. Who stops listening ends it.
//
// It is for who runs the store: whose images are whose is asked of leases.
func (s *Store) Pull(ctx context.Context, name string) iter.Seq2[Progress, error] {
	return progress(ctx, func(ctx context.Context, m *meter) error {
		n, err := parseName(name)
		if err != nil {
			return err
		}
		if n.ref == nil {
			return invalid("pull %.200q: a reference begins with its registry's host; archives and layouts are imported", name)
		}
		l, d, err := s.pull(ctx, n, m)
		if err != nil {
			return err
		}
		l.unlock()
		m.done(d.digest.String())
		return nil
	})
}

// pull fetches an image and notes what its name stands for. The lock keeps it
// until its user is noted.
func (s *Store) pull(ctx context.Context, n *imageName, m *meter) (*lock, *described, error) {
	src, err := s.fromRegistry(ctx, n.ref)
	if err != nil {
		return nil, nil, err
	}
	l, d, err := s.take(ctx, src, m, &nameRecord{Name: n.String(), Source: sourcePulled})
	if err != nil {
		return nil, nil, registryError(n.ref, err)
	}
	return l, d, nil
}

// take puts an image into the store under a name.
func (s *Store) take(ctx context.Context, src *source, m *meter, name *nameRecord) (_ *lock, _ *described, err error) {
	defer func() { err = errors.Join(err, src.close()) }()
	l, d, err := s.put(ctx, src, m)
	if err != nil {
		return nil, nil, err
	}
	name.Digest = d.digest.String()
	if err := s.writeName(name); err != nil {
		l.unlock()
		return nil, nil, err
	}
	return l, d, nil
}

// Import takes an image from an OCI layout or an archive, path or path#which,
// under a name. The name may be one of the store's own or a reference.
func (s *Store) Import(ctx context.Context, path, name string) iter.Seq2[Progress, error] {
	return progress(ctx, func(ctx context.Context, m *meter) error {
		to, err := parseName(name)
		if err != nil {
			return err
		}
		if to.path != "" || to.short == sandbox.HostImage {
			return invalid("import: %.200q cannot be an image's name", name)
		}
		if path, err = filepath.Abs(path); err != nil {
			return err
		}
		from, err := parseName(path)
		if err != nil {
			return err
		}
		d, err := s.importAs(ctx, from, m, &nameRecord{Name: to.String(), Source: sourceImported})
		if err != nil {
			return fmt.Errorf("import %s: %w", path, err)
		}
		m.done(d.digest.String())
		return nil
	})
}

func (s *Store) importAs(ctx context.Context, from *imageName, m *meter, name *nameRecord) (*described, error) {
	src, err := s.fromPath(ctx, from)
	if err != nil {
		return nil, err
	}
	l, d, err := s.take(ctx, src, m, name)
	if err != nil {
		return nil, err
	}
	l.unlock()
	return d, nil
}

// fromPath returns an image of a layout or an archive.
func (s *Store) fromPath(ctx context.Context, n *imageName) (*source, error) {
	info, err := os.Stat(n.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return s.fromArchive(ctx, n.path, n.inside)
	}
	if !isLayout(n.path) {
		return nil, invalid("%s is no OCI layout: it has no file oci-layout", n.path)
	}
	root, err := os.OpenRoot(n.path)
	if err != nil {
		return nil, err
	}
	src, err := s.fromLayout(folderContents{root}, n.inside)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return src, nil
}

func isLayout(dir string) bool { return exists(filepath.Join(dir, "oci-layout")) }

// stampOf tells a file from what it was before.
func stampOf(path string) (string, error) {
	var st unix.Stat_t
	if isLayout(path) {
		path = filepath.Join(path, "index.json")
	}
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fmt.Sprintf("%d:%d:%d:%d", st.Dev, st.Ino, st.Size, st.Mtim.Nano()), nil
}
