package tree

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"
)

func (u *unpacker) file(where, base string, h *tar.Header, r io.Reader) error {
	if err := u.budget.Content(h.Size); err != nil {
		return err
	}
	return u.put(where, base, func(in *os.Root) error {
		f, err := in.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		n, err := u.content(f, r, h.Size)
		u.layer.Bytes += n
		if err == nil {
			err = fileMeta(f, h)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		return in.Chtimes(base, time.Time{}, h.ModTime)
	})
}

func fileMeta(f *os.File, h *tar.Header) error {
	if h.Uid != 0 || h.Gid != 0 {
		if err := f.Chown(h.Uid, h.Gid); err != nil {
			return err
		}
	}
	return f.Chmod(mode(h))
}

// mode is an entry's mode without the bits that give rights away.
func mode(h *tar.Header) fs.FileMode {
	m := fs.FileMode(h.Mode).Perm()
	if h.Mode&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

const (
	copySize = 256 << 10
	holeSize = 64 << 10 // at least that many zeros become a hole
)

var zeros [holeSize]byte

// content writes a file. Long runs of zeros are not written.
func (u *unpacker) content(f *os.File, r io.Reader, size int64) (int64, error) {
	var n int64
	if size < holeSize {
		return io.CopyBuffer(struct{ io.Writer }{f}, r, u.buf)
	}
	for n < size {
		chunk, err := io.ReadFull(r, u.buf[:min(int64(len(u.buf)), size-n)])
		if err != nil {
			return n, err
		}
		if err := sparse(f, u.buf[:chunk], n); err != nil {
			return n, err
		}
		n += int64(chunk)
	}
	return n, f.Truncate(n)
}

func sparse(f *os.File, b []byte, at int64) error {
	for block := range slices.Chunk(b, holeSize) {
		if len(block) < holeSize || string(block) != string(zeros[:]) {
			if _, err := f.WriteAt(block, at); err != nil {
				return err
			}
		}
		at += int64(len(block))
	}
	return nil
}

func (u *unpacker) symlink(where, base string, h *tar.Header) error {
	return u.put(where, base, func(in *os.Root) error {
		if err := in.Symlink(h.Linkname, base); err != nil {
			return err
		}
		if h.Uid == 0 && h.Gid == 0 {
			return nil
		}
		return in.Lchown(base, h.Uid, h.Gid)
	})
}

// link makes a hard link to what the layer has, or notes one to what a layer
// below may have.
func (u *unpacker) link(where, base, name string, h *tar.Header) error {
	target, err := clean(h.Linkname)
	if err != nil {
		return err
	}
	dir, err := u.parent(target, false)
	if errors.Is(err, fs.ErrNotExist) {
		return u.linkBelow(where, base, name, target)
	}
	if err != nil {
		return err
	}
	from, to := path.Join(dir, path.Base(target)), path.Join(where, base)
	info, err := u.root.Lstat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u.linkBelow(where, base, name, target)
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("a hard link to a folder")
	case from == to:
		return nil
	}
	return u.put(where, base, func(*os.Root) error { return u.root.Link(from, to) })
}

func (u *unpacker) linkBelow(where, base, name, target string) error {
	if err := u.remove(where, base); err != nil {
		return err
	}
	u.layer.Links = append(u.layer.Links, [2][]byte{[]byte(name), []byte(target)})
	return u.budget.Names(name, target)
}
