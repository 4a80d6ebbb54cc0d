package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox"
)

var _ sandbox.Images = (*Store)(nil)

// Image implements sandbox.Images. An image that has been pulled once is not
// looked for in its registry again, whatever its tag stands for there by now:
// Pull does that.
func (s *Store) Image(ctx context.Context, want sandbox.ImageRequest) (*sandbox.Image, error) {
	found, err := s.same(ctx, want)
	if found != nil || err != nil {
		return found, err
	}
	if found, err = s.image(ctx, want); err != nil {
		return nil, err
	}
	if want.Digest != "" && found.Digest != want.Digest {
		return nil, refused(sandbox.ErrConflict, "image %.200q was %s, which is gone: it is %s now", want.Name, want.Digest, found.Digest)
	}
	return found, nil
}

// same returns the image that a sandbox has had, if it is one of the store's.
func (s *Store) same(ctx context.Context, want sandbox.ImageRequest) (*sandbox.Image, error) {
	h, err := v1.NewHash(want.Digest)
	if err != nil {
		return nil, nil //nolint:nilerr // it has had none
	}
	return s.byDigest(ctx, h, want.Holder)
}

func (s *Store) image(ctx context.Context, want sandbox.ImageRequest) (*sandbox.Image, error) {
	if _, ok := s.cfg.Dirs[want.Name]; ok || want.Name == sandbox.HostImage {
		return s.local.Image(ctx, want)
	}
	n, err := parseName(want.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case n.ref != nil:
		if err := s.mayName(n.ref, want.Owner); err != nil {
			return nil, err
		}
	case n.path != "":
		if n.path, err = s.mayOpen(n.path); err != nil {
			return nil, err
		}
		if info, err := os.Stat(n.path); err == nil && info.IsDir() && !isLayout(n.path) {
			return &sandbox.Image{Root: n.path}, nil
		}
	}
	return s.lease(ctx, n, want.Holder)
}

// lease returns an image that holder then has, fetching it if it has to.
func (s *Store) lease(ctx context.Context, n *imageName, holder string) (*sandbox.Image, error) {
	stamp := ""
	if n.path != "" {
		var err error
		if stamp, err = stampOf(n.path); err != nil {
			return nil, err
		}
	}
	if found, err := s.kept(ctx, n, stamp, holder); found != nil || err != nil {
		return found, err
	}
	if n.short != "" {
		return nil, s.unknown(n.short)
	}
	l, d, err := s.fetch(ctx, n, stamp)
	if err != nil {
		return nil, err
	}
	defer l.unlock()
	return s.hand(d.digest, holder)
}

// fetch takes an image that a lease has named from where it is.
func (s *Store) fetch(ctx context.Context, n *imageName, stamp string) (*lock, *described, error) {
	if n.ref != nil {
		return s.pull(ctx, n, nil)
	}
	src, err := s.fromPath(ctx, n)
	if err != nil {
		return nil, nil, fmt.Errorf("image %.200s: %w", n, err)
	}
	l, d, err := s.take(ctx, src, nil, &nameRecord{Name: n.String(), Source: sourcePath, Stamp: stamp})
	if err != nil {
		return nil, nil, fmt.Errorf("image %.200s: %w", n, err)
	}
	return l, d, nil
}

// kept returns an image that the store has under a name.
func (s *Store) kept(ctx context.Context, n *imageName, stamp, holder string) (*sandbox.Image, error) {
	r, err := s.readName(n.String())
	if errors.Is(err, fs.ErrNotExist) || err == nil && r.Stamp != stamp {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := v1.NewHash(r.Digest)
	if err != nil {
		return nil, err
	}
	return s.byDigest(ctx, h, holder)
}

// byDigest returns an image that the store has, or nothing.
func (s *Store) byDigest(ctx context.Context, h v1.Hash, holder string) (*sandbox.Image, error) {
	l, err := s.lock(ctx, imageLock(h), unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer l.unlock()
	found, err := s.hand(h, holder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return found, err
}

// hand returns an image and notes who has it. Its lock is held.
func (s *Store) hand(h v1.Hash, holder string) (*sandbox.Image, error) {
	info, err := s.readInfo(h)
	if err != nil {
		return nil, err
	}
	if err := s.use(h, holder); err != nil {
		return nil, err
	}
	return &sandbox.Image{
		Root: s.path(imagesDir, h.Hex, "root"), Env: environment(info.Env), Digest: h.String(),
	}, nil
}

// environment is what of an image's environment commands get: all but what
// says who its user is.
func environment(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return key == "HOME" || key == "USER" || key == "LOGNAME"
	})
}

func (s *Store) unknown(name string) error {
	have := []string{sandbox.HostImage}
	for dir := range s.cfg.Dirs {
		have = append(have, dir)
	}
	records, err := s.names()
	for _, r := range records {
		if shortName.MatchString(r.Name) {
			have = append(have, r.Name)
		}
	}
	slices.Sort(have)
	return errors.Join(refused(sandbox.ErrNotFound, "image %.80q: have %s", name, strings.Join(have, ", ")), err)
}
