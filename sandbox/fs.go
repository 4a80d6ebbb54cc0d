package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// FS returns the files below the workdir, for reading. They are opened inside
// the sandbox, as its user: a symbolic link means what it means there, and
// leads nowhere else. What is neither a file nor a directory cannot be opened.
//
// An fs.FS has no place for a context, so ctx bounds every use of the FS and
// of the files opened by it. It implements fs.StatFS, fs.ReadFileFS,
// fs.ReadDirFS and, unless the driver lacks it, fs.ReadLinkFS, and is safe for
// concurrent use.
//
// A program inside chooses how large its files are, so read those that it may
// have written through a limit, as by io.LimitReader.
func (s *Sandbox) FS(ctx context.Context) fs.FS {
	base := sandboxFS{ctx: ctx, sandbox: s}
	if d, ok := s.driver.(FileSystem); ok {
		return &linkFS{base, d}
	}
	return &base
}

// WriteFile makes the file name, or replaces it, with what src has to its end.
// It streams: a file may be larger than memory. Readers see the old file or
// the whole new one, and an error leaves the old one. Missing parents are
// made. A new file has mode perm less the usual mask, an existing one keeps
// its own; it belongs to the sandbox's user. If name is a symbolic link, the
// file that it points to is replaced.
//
// Name is relative to the workdir, or absolute and within it.
func (s *Sandbox) WriteFile(ctx context.Context, name string, src io.Reader, perm fs.FileMode) error {
	switch last := name[strings.LastIndexByte(name, '/')+1:]; last {
	case "", ".", "..":
		return &fs.PathError{Op: "write", Path: name, Err: invalid("the name of a directory where a file is wanted")}
	}
	return s.driver.WriteFile(ctx, s.id, name, src, perm)
}

// Mkdir makes the directory name and its missing parents. One that exists is
// no error.
func (s *Sandbox) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	if d, ok := s.driver.(FileSystem); ok {
		return d.Mkdir(ctx, s.id, name, perm, true)
	}
	return s.unsupported("mkdir", name)
}

// Remove removes the file or empty directory name. That it does not exist is
// an error.
func (s *Sandbox) Remove(ctx context.Context, name string) error {
	if d, ok := s.driver.(FileSystem); ok {
		return d.Remove(ctx, s.id, name, false)
	}
	return s.unsupported("remove", name)
}

// RemoveAll removes name and all that is below it. That it does not exist is
// no error.
func (s *Sandbox) RemoveAll(ctx context.Context, name string) error {
	if d, ok := s.driver.(FileSystem); ok {
		return d.Remove(ctx, s.id, name, true)
	}
	return s.unsupported("removeall", name)
}

// CopyFS copies the files of src into the directory dir of the sandbox, as
// os.CopyFS does on the host: directories and regular files, with their
// permission bits; anything else is an error. Unlike there, existing files
// are replaced.
func (s *Sandbox) CopyFS(ctx context.Context, dir string, src fs.FS) error {
	return fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		return s.copyEntry(ctx, path.Join(dir, name), src, name, d)
	})
}

func (s *Sandbox) copyEntry(ctx context.Context, to string, src fs.FS, name string, d fs.DirEntry) error {
	if d.IsDir() {
		return s.Mkdir(ctx, to, 0o755)
	}
	if !d.Type().IsRegular() {
		return &fs.PathError{Op: "copy", Path: name, Err: invalid("neither a regular file nor a directory")}
	}
	f, err := src.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return s.WriteFile(ctx, to, f, info.Mode().Perm())
}

func (s *Sandbox) unsupported(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: errors.ErrUnsupported}
}

type sandboxFS struct {
	ctx     context.Context //nolint:containedctx // documented at FS: the interface has no place for one
	sandbox *Sandbox
}

var (
	_ fs.StatFS     = (*sandboxFS)(nil)
	_ fs.ReadDirFS  = (*sandboxFS)(nil)
	_ fs.ReadFileFS = (*sandboxFS)(nil)
	_ fs.ReadLinkFS = (*linkFS)(nil)
)

func check(op, name string) error {
	if !fs.ValidPath(name) || strings.ContainsRune(name, 0) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

func (f *sandboxFS) Open(name string) (fs.File, error) {
	if err := check("open", name); err != nil {
		return nil, err
	}
	return f.sandbox.driver.Open(f.ctx, f.sandbox.id, name)
}

// ReadFile grows with what comes: fs.ReadFile's own way is to allocate the
// size that is claimed, which a sparse file makes as large as it likes.
func (f *sandboxFS) ReadFile(name string) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (f *sandboxFS) Stat(name string) (fs.FileInfo, error) {
	if err := check("stat", name); err != nil {
		return nil, err
	}
	if d, ok := f.sandbox.driver.(FileSystem); ok {
		return d.Stat(f.ctx, f.sandbox.id, name)
	}
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Stat()
}

func (f *sandboxFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := check("readdir", name); err != nil {
		return nil, err
	}
	if d, ok := f.sandbox.driver.(FileSystem); ok {
		return d.ReadDir(f.ctx, f.sandbox.id, name)
	}
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	dir, ok := file.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.ErrUnsupported}
	}
	list, err := dir.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

// A linkFS is the FS of a Driver that can tell a link from what it points to.
type linkFS struct {
	sandboxFS
	driver FileSystem
}

func (f *linkFS) Lstat(name string) (fs.FileInfo, error) {
	if err := check("lstat", name); err != nil {
		return nil, err
	}
	return f.driver.Lstat(f.ctx, f.sandbox.id, name)
}

func (f *linkFS) ReadLink(name string) (string, error) {
	if err := check("readlink", name); err != nil {
		return "", err
	}
	return f.driver.ReadLink(f.ctx, f.sandbox.id, name)
}
