package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxMembers is how many files an archive of images may have. Each layer takes
// a few.
const maxMembers = 100_000

// archiveContents are the files in a tar archive. It is read once to see where
// they are.
type archiveContents struct {
	f       *os.File
	members map[string]member
}

type member struct {
	at, size int64
	link     string // another member that it is, too
}

func (c *archiveContents) Close() error { return c.f.Close() }

func (c *archiveContents) file(name string) (io.ReadCloser, error) {
	m, ok := c.members[path.Clean(name)]
	if ok && m.link != "" {
		m, ok = c.members[m.link]
	}
	if !ok || m.link != "" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(c.f, m.at, m.size)), nil
}

// openArchive opens an archive, decompressing it into a file without a name if
// it is compressed.
func (s *Store) openArchive(ctx context.Context, name string) (*archiveContents, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a file", name)
	}
	if err == nil {
		f, err = s.decompressed(ctx, f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c := &archiveContents{f: f, members: map[string]member{}}
	if err := c.scan(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

// decompressed returns the file as it is, or one with what was compressed in
// it in its place.
func (s *Store) decompressed(ctx context.Context, f *os.File) (*os.File, error) {
	r, kind, err := decompress(f)
	if err != nil {
		return f, err
	}
	defer r.Close()
	if kind == "" {
		_, err := f.Seek(0, io.SeekStart)
		return f, err
	}
	tmp, err := os.CreateTemp(s.path(tmpDir), "archive-")
	if err != nil {
		return f, err
	}
	err = os.Remove(tmp.Name())
	if err == nil {
		var n int64
		n, err = io.Copy(tmp, io.LimitReader(withContext(ctx, r), s.cfg.MaxImage+1))
		if err == nil && n > s.cfg.MaxImage {
			err = fmt.Errorf("an archive of more than %d bytes", s.cfg.MaxImage)
		}
	}
	if err == nil {
		_, err = tmp.Seek(0, io.SeekStart)
	}
	if err != nil {
		return f, errors.Join(err, tmp.Close())
	}
	return tmp, f.Close()
}

// scan notes where the archive's files are.
func (c *archiveContents) scan(ctx context.Context) error {
	t := tar.NewReader(c.f)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && len(c.members) >= maxMembers {
			err = fmt.Errorf("more than %d files", maxMembers)
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if err := c.note(h); err != nil {
			return err
		}
	}
}

func (c *archiveContents) note(h *tar.Header) error {
	name := path.Clean(strings.TrimLeft(h.Name, "/"))
	switch h.Typeflag {
	case tar.TypeReg:
		if h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != "" {
			return fmt.Errorf("archive: %.100q is a sparse file", name)
		}
		at, err := c.f.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		c.members[name] = member{at: at, size: h.Size}
	case tar.TypeSymlink: // as docker's of old for a layer that two images have
		c.members[name] = member{link: path.Join(path.Dir(name), h.Linkname)}
	case tar.TypeLink:
		c.members[name] = member{link: path.Clean(h.Linkname)}
	}
	return nil
}
