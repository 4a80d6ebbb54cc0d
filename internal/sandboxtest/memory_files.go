package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/hanzoai/sandbox/internal/workpath"
	"github.com/hanzoai/sandbox/sandbox"
)

// file enters a use of one of a sandbox's files, and tells its absolute path.
func (m *Memory) file(ctx context.Context, op, id, name string) (use, string, error) {
	u, err := m.use(op, id)
	if err != nil {
		return use{}, "", err
	}
	full, err := workpath.Resolve(u.workdir, name)
	if err != nil {
		err = errors.Join(err, sandbox.ErrInvalid, fs.ErrInvalid)
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		u.done()
		return use{}, "", named(op, name, err)
	}
	return u, full, nil
}

// named says an error in the caller's terms.
func named(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Open implements sandbox.Driver.
func (m *Memory) Open(ctx context.Context, id, name string) (fs.File, error) {
	u, full, err := m.file(ctx, "open", id, name)
	if err != nil {
		return nil, err
	}
	defer u.done()
	i, data, err := u.files.open(full)
	if err == nil && !i.IsDir() && !i.Mode().IsRegular() {
		err = syscall.EINVAL
	}
	if err != nil {
		return nil, named("open", name, err)
	}
	f := openFile{box: u.box, release: u.hold(), ctx: ctx, name: name, info: i}
	if i.IsDir() {
		return &directoryFile{openFile: f, path: full}, nil
	}
	return &regularFile{openFile: f, data: bytes.NewReader(data)}, nil
}

// WriteFile implements sandbox.Driver. The file is in the source until it has
// been read to its end.
func (m *Memory) WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	u, full, err := m.file(ctx, "write", id, name)
	if err != nil {
		return err
	}
	defer u.done()
	if err := u.files.makeRoom(full); err != nil {
		return named("write", name, err)
	}
	data, err := u.readAll(ctx, src)
	if err == nil {
		err = u.files.replace(full, data, perm.Perm())
	}
	return named("write", name, err)
}

// readAll reads until the end of the source, of ctx or of the box. A Read that
// is under way then cannot be called back.
func (b *box) readAll(ctx context.Context, src io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	all := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(src)
		all <- result{data, err}
	}()
	select {
	case r := <-all:
		return r.data, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-b.ctx.Done():
		return nil, context.Cause(b.ctx)
	}
}

// Stat implements sandbox.FileSystem.
func (m *Memory) Stat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	u, full, err := m.file(ctx, "stat", id, name)
	if err != nil {
		return nil, err
	}
	defer u.done()
	i, err := u.files.stat(full, true)
	return i, named("stat", name, err)
}

// Lstat implements sandbox.FileSystem.
func (m *Memory) Lstat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	u, full, err := m.file(ctx, "lstat", id, name)
	if err != nil {
		return nil, err
	}
	defer u.done()
	i, err := u.files.stat(full, false)
	return i, named("lstat", name, err)
}

// ReadLink implements sandbox.FileSystem.
func (m *Memory) ReadLink(ctx context.Context, id, name string) (string, error) {
	u, full, err := m.file(ctx, "readlink", id, name)
	if err != nil {
		return "", err
	}
	defer u.done()
	target, err := u.files.readlink(full)
	return target, named("readlink", name, err)
}

// ReadDir implements sandbox.FileSystem.
func (m *Memory) ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error) {
	u, full, err := m.file(ctx, "readdir", id, name)
	if err != nil {
		return nil, err
	}
	defer u.done()
	list, err := u.files.list(full)
	return list, named("readdir", name, err)
}

// Mkdir implements sandbox.FileSystem.
func (m *Memory) Mkdir(ctx context.Context, id, name string, perm fs.FileMode, parents bool) error {
	u, full, err := m.file(ctx, "mkdir", id, name)
	if err != nil {
		return err
	}
	defer u.done()
	return named("mkdir", name, u.files.mkdir(full, perm.Perm(), parents))
}

// Remove implements sandbox.FileSystem.
func (m *Memory) Remove(ctx context.Context, id, name string, all bool) error {
	u, full, err := m.file(ctx, "remove", id, name)
	if err != nil {
		return err
	}
	defer u.done()
	if full == u.workdir {
		return named("remove", name, errors.Join(errors.New("the working directory itself stays"), sandbox.ErrInvalid, fs.ErrInvalid))
	}
	return named("remove", name, u.files.remove(full, all))
}

// An openFile is a file as it was when it was opened. It ends with ctx, and
// with its box.
type openFile struct {
	box     *box
	release func()          // of the use that it is
	ctx     context.Context //nolint:containedctx // as for FS: an fs.File has no place for one
	name    string
	info    info
	closed  bool
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *openFile) Close() error {
	if f.closed {
		return named("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.release()
	return nil
}

// usable returns why the file cannot be read any more.
func (f *openFile) usable() error {
	switch {
	case f.closed:
		return named("read", f.name, fs.ErrClosed)
	case f.ctx.Err() != nil:
		return named("read", f.name, context.Cause(f.ctx))
	case f.box.ctx.Err() != nil:
		return named("read", f.name, context.Cause(f.box.ctx))
	}
	return nil
}

type regularFile struct {
	openFile
	data *bytes.Reader
}

func (f *regularFile) Read(p []byte) (int, error) {
	if err := f.usable(); err != nil {
		return 0, err
	}
	return f.data.Read(p)
}

// A directoryFile is listed when it is first read.
type directoryFile struct {
	openFile
	path   string
	list   []fs.DirEntry
	listed bool
}

func (d *directoryFile) Read([]byte) (int, error) {
	return 0, named("read", d.name, syscall.EISDIR)
}

func (d *directoryFile) ReadDir(n int) ([]fs.DirEntry, error) {
	err := d.usable()
	if err == nil && !d.listed {
		d.list, err = d.box.files.list(d.path)
		d.listed = err == nil
	}
	if err != nil {
		return nil, err
	}
	if n > 0 && len(d.list) == 0 {
		return nil, io.EOF
	}
	if n <= 0 {
		n = len(d.list)
	}
	n = min(n, len(d.list))
	list := d.list[:n:n]
	d.list = d.list[n:]
	return list, nil
}
