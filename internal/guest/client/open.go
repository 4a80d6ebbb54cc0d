package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	gopath "path"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// Open opens a regular file, which is also an io.Seeker, or a directory.
// Reading ends with ctx. When nothing is open any more, or is not at all,
// closed is called.
func (c *Client) Open(ctx context.Context, path string, closed func()) (fs.File, error) {
	l, i, err := c.open(ctx, path, 0)
	if err != nil {
		closed()
		return nil, err
	}
	if i.IsDir() {
		closed()
		l.Close()
		return &dir{client: c, ctx: ctx, path: path, info: i}, nil
	}
	return &file{client: c, ctx: ctx, call: l, path: path, info: i, closed: closed}, nil
}

func (c *Client) open(ctx context.Context, path string, offset int64) (*call, info, error) {
	l, err := c.start(ctx, &wire.Request{Op: wire.OpRead, Path: path, Offset: offset})
	if err != nil {
		return nil, info{}, err
	}
	var i info
	b, err := l.promptOK()
	if err == nil {
		err = i.Decode(b)
	}
	if err != nil {
		l.Close()
		return nil, info{}, pathError("open", path, err)
	}
	i.Stat.Name = gopath.Base(path)
	return l, i, nil
}

// A file streams what the init reads.
type file struct {
	client *Client
	ctx    context.Context //nolint:containedctx // as for FS: an fs.File has no place for one
	path   string
	info   info
	closed func()

	call *call  // nil after a Seek: the next Read opens the file there
	pos  int64  // of the next byte for the caller
	rest []byte // of the frame that was read last
	err  error
}

var _ io.Seeker = (*file)(nil)

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *file) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		if len(p) == 0 {
			return 0, nil
		}
		f.advance()
	}
	n := copy(p, f.rest)
	f.take(n)
	return n, nil
}

func (f *file) take(n int) {
	f.rest = f.rest[n:]
	f.pos += int64(n)
}

// WriteTo saves io.Copy a buffer and a copy.
func (f *file) WriteTo(w io.Writer) (written int64, err error) {
	for {
		if len(f.rest) > 0 {
			n, err := w.Write(f.rest)
			if err == nil && n < len(f.rest) {
				err = io.ErrShortWrite
			}
			written += int64(n)
			f.take(n)
			if err != nil {
				return written, err
			}
		}
		if f.err != nil {
			if f.err == io.EOF {
				return written, nil
			}
			return written, f.err
		}
		f.advance()
	}
}

func (f *file) advance() {
	if f.call == nil {
		if f.err = f.reopen(); f.err != nil {
			return
		}
	}
	kind, payload, err := f.call.next()
	switch {
	case err != nil:
		f.err = pathError("read", f.path, err)
	case kind == wire.KindEnd:
		f.err = io.EOF
	case kind == wire.KindData:
		f.rest = payload
	default:
		f.err = fmt.Errorf("read %s: the sandbox broke the protocol: frame %d", f.path, kind)
	}
}

// reopen goes on at another place in the file, if it is still the one that was
// opened.
func (f *file) reopen() error {
	l, now, err := f.client.open(f.ctx, f.path, f.pos)
	if err != nil {
		return err
	}
	if now.Stat.Size != f.info.Stat.Size || !now.Stat.ModTime.Equal(f.info.Stat.ModTime) || now.Stat.Mode != f.info.Stat.Mode {
		l.Close()
		return &fs.PathError{Op: "seek", Path: f.path, Err: errors.New("the file has changed since it was opened")}
	}
	f.call = l
	return nil
}

// Seek sets where the next Read begins. It costs nothing until then.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	if errors.Is(f.err, fs.ErrClosed) {
		return 0, f.err
	}
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.info.Stat.Size
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: f.path, Err: fs.ErrInvalid}
	}
	if offset == f.pos {
		return offset, nil
	}
	if f.call != nil {
		f.call.Close()
	}
	f.call, f.rest, f.err, f.pos = nil, nil, nil, offset
	return offset, nil
}

func (f *file) Close() error {
	if errors.Is(f.err, fs.ErrClosed) {
		return &fs.PathError{Op: "close", Path: f.path, Err: fs.ErrClosed}
	}
	f.rest, f.err = nil, &fs.PathError{Op: "read", Path: f.path, Err: fs.ErrClosed}
	f.closed()
	if f.call == nil {
		return nil
	}
	return f.call.Close()
}
