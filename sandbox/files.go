//go:build linux

package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"

	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/internal/loopback"
	"github.com/hanzoai/sandbox/internal/workpath"
)

// file enters a use of one of a sandbox's files, and tells its absolute path.
func (r *Runtime) file(op, id, name string) (use, string, error) {
	u, err := r.use(op, id)
	if err != nil {
		return use{}, "", err
	}
	path, err := workpath.Resolve(u.row.Workdir, name)
	if err != nil {
		u.done()
		return use{}, "", invalidName(op, name, err)
	}
	return u, path, nil
}

// named says a file error in the caller's terms: its name, and what became of
// the sandbox if it did.
func (u *use) named(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: op, Path: name, Err: p.Err}
	}
	return &fs.PathError{Op: op, Path: name, Err: u.fate(err)}
}

// Open implements Driver.
func (r *Runtime) Open(ctx context.Context, id, name string) (fs.File, error) {
	u, path, err := r.file("open", id, name)
	if err != nil {
		return nil, err
	}
	f, err := u.client.Open(ctx, path, u.done)
	if err != nil {
		return nil, u.named("open", name, err)
	}
	return f, nil
}

// WriteFile implements Driver.
func (r *Runtime) WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	u, path, err := r.file("write", id, name)
	if err != nil {
		return err
	}
	defer u.done()
	ctx, done := u.writing(ctx)
	defer done()
	return u.named("write", name, u.client.Write(ctx, path, src, perm))
}

// Stat implements FileSystem.
func (r *Runtime) Stat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	u, path, err := r.file("stat", id, name)
	if err != nil {
		return nil, err
	}
	defer u.done()
	info, err := u.client.Stat(ctx, path)
	return info, u.named("stat", name, err)
}

// Lstat implements FileSystem.
func (r *Runtime) Lstat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	u, path, err := r.file("lstat", id, name)
	if err != nil {
		return nil, err
	}
	defer u.done()
	info, err := u.client.Lstat(ctx, path)
	return info, u.named("lstat", name, err)
}

// ReadLink implements FileSystem.
func (r *Runtime) ReadLink(ctx context.Context, id, name string) (string, error) {
	u, path, err := r.file("readlink", id, name)
	if err != nil {
		return "", err
	}
	defer u.done()
	target, err := u.client.Readlink(ctx, path)
	return target, u.named("readlink", name, err)
}

// ReadDir implements FileSystem.
func (r *Runtime) ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error) {
	u, path, err := r.file("readdir", id, name)
	if err != nil {
		return nil, err
	}
	defer u.done()
	list, err := u.client.ReadDir(ctx, path)
	return list, u.named("readdir", name, err)
}

// Mkdir implements FileSystem.
func (r *Runtime) Mkdir(ctx context.Context, id, name string, perm fs.FileMode, parents bool) error {
	u, path, err := r.file("mkdir", id, name)
	if err != nil {
		return err
	}
	defer u.done()
	return u.named("mkdir", name, u.client.Mkdir(ctx, path, perm, parents))
}

// Remove implements FileSystem.
func (r *Runtime) Remove(ctx context.Context, id, name string, tree bool) error {
	u, path, err := r.file("remove", id, name)
	if err != nil {
		return err
	}
	defer u.done()
	if path == u.row.Workdir {
		return invalidName("remove", name, errors.New("the working directory itself stays"))
	}
	return u.named("remove", name, u.client.Remove(ctx, path, tree))
}

// Ports implements PortLister.
func (r *Runtime) Ports(ctx context.Context, id string) ([]int, error) {
	u, err := r.use("ports", id)
	if err != nil {
		return nil, err
	}
	defer u.done()
	list, err := u.client.Ports(ctx)
	if err != nil {
		return nil, &Error{Op: "ports", ID: id, Err: u.fate(err)}
	}
	ports := make([]int, len(list))
	for i, p := range list {
		ports[i] = int(p)
	}
	return ports, nil
}

// DialContext implements Dialer.
func (r *Runtime) DialContext(ctx context.Context, id, network, address string) (net.Conn, error) {
	port, err := loopback.Port(network, address)
	if err != nil {
		return nil, &Error{Op: "dial", ID: id, Err: invalid("%v", err)}
	}
	u, err := r.use("dial", id)
	if err != nil {
		return nil, err
	}
	c, err := u.client.DialPort(ctx, uint16(port), u.done)
	if e, ok := errors.AsType[*wire.Error](err); ok {
		err = &net.OpError{Op: "dial", Net: network, Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Err: e.Errno}
	}
	if err != nil {
		return nil, &Error{Op: "dial", ID: id, Err: u.fate(err)}
	}
	return c, nil
}
