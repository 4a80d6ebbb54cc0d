package client

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// A remoteFile is a file that is being read. Seek has it read from elsewhere by
// another request, which finds the file as it is then.
type remoteFile struct {
	ctx    context.Context //nolint:containedctx // as for FS: an fs.File has no place for one
	name   string
	info   *fileInfo
	reopen func(offset int64) (io.ReadCloser, error)

	body   io.ReadCloser // nil after a Seek
	offset int64
	closed bool
}

func (f *remoteFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *remoteFile) Read(p []byte) (int, error) {
	switch {
	case f.closed:
		return 0, pathError("read", f.name, fs.ErrClosed)
	case f.ctx.Err() != nil:
		return 0, pathError("read", f.name, context.Cause(f.ctx))
	}
	if f.body == nil {
		body, err := f.reopen(f.offset)
		if err != nil {
			return 0, pathError("read", f.name, err)
		}
		f.body = body
	}
	n, err := f.body.Read(p)
	f.offset += int64(n)
	if err != nil && err != io.EOF {
		return n, pathError("read", f.name, cause(f.ctx, err))
	}
	return n, err
}

// Seek sets where the next Read begins.
func (f *remoteFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.info.size
	}
	if f.closed {
		return 0, pathError("seek", f.name, fs.ErrClosed)
	}
	if offset < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	if offset != f.offset && f.body != nil {
		f.body.Close()
		f.body = nil
	}
	f.offset = offset
	return offset, nil
}

func (f *remoteFile) Close() error {
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	if f.body == nil {
		return nil
	}
	return f.body.Close()
}

// A dirFile is a directory, which is listed when it is first read.
type dirFile struct {
	ctx    context.Context //nolint:containedctx // as above
	name   string
	info   *fileInfo
	list   func() ([]fs.DirEntry, error)
	rest   []fs.DirEntry
	listed bool
	closed bool
}

func (d *dirFile) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *dirFile) Read([]byte) (int, error) { return 0, pathError("read", d.name, errIsDir) }

func (d *dirFile) Close() error {
	if d.closed {
		return pathError("close", d.name, fs.ErrClosed)
	}
	d.closed = true
	return nil
}

func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	switch {
	case d.closed:
		return nil, pathError("readdir", d.name, fs.ErrClosed)
	case d.ctx.Err() != nil:
		return nil, pathError("readdir", d.name, context.Cause(d.ctx))
	}
	if !d.listed {
		list, err := d.list()
		if err != nil {
			return nil, err
		}
		slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		d.rest, d.listed = list, true
	}
	if n > 0 && len(d.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.rest) {
		n = len(d.rest)
	}
	list := d.rest[:n:n]
	d.rest = d.rest[n:]
	return list, nil
}
