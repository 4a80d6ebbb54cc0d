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

// file finds a sandbox and the absolute path of one of its files.
func (r *Runtime) file(op, id, name string) (*instance, string, error) {
	s, err := r.find(op, id)
	if err != nil {
		return nil, "", err
	}
	path, err := workpath.Resolve(s.row.Workdir, name)
	if err != nil {
		return nil, "", invalidName(op, name, err)
	}
	return s, path, nil
}

// named says a file error in the caller's terms: its name, and what became of
// the sandbox if it did.
func (s *instance) named(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: op, Path: name, Err: p.Err}
	}
	return &fs.PathError{Op: op, Path: name, Err: s.fate(err)}
}

// Open implements Driver.
func (r *Runtime) Open(ctx context.Context, id, name string) (fs.File, error) {
	s, path, err := r.file("open", id, name)
	if err != nil {
		return nil, err
	}
	f, err := s.client.Open(ctx, path)
	if err != nil {
		return nil, s.named("open", name, err)
	}
	return f, nil
}

// WriteFile implements Driver.
func (r *Runtime) WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	s, path, err := r.file("write", id, name)
	if err != nil {
		return err
	}
	return s.named("write", name, s.client.Write(ctx, path, src, perm))
}

// Stat implements FileSystem.
func (r *Runtime) Stat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	s, path, err := r.file("stat", id, name)
	if err != nil {
		return nil, err
	}
	info, err := s.client.Stat(ctx, path)
	return info, s.named("stat", name, err)
}

// Lstat implements FileSystem.
func (r *Runtime) Lstat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	s, path, err := r.file("lstat", id, name)
	if err != nil {
		return nil, err
	}
	info, err := s.client.Lstat(ctx, path)
	return info, s.named("lstat", name, err)
}

// ReadLink implements FileSystem.
func (r *Runtime) ReadLink(ctx context.Context, id, name string) (string, error) {
	s, path, err := r.file("readlink", id, name)
	if err != nil {
		return "", err
	}
	target, err := s.client.Readlink(ctx, path)
	return target, s.named("readlink", name, err)
}

// ReadDir implements FileSystem.
func (r *Runtime) ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error) {
	s, path, err := r.file("readdir", id, name)
	if err != nil {
		return nil, err
	}
	list, err := s.client.ReadDir(ctx, path)
	return list, s.named("readdir", name, err)
}

// Mkdir implements FileSystem.
func (r *Runtime) Mkdir(ctx context.Context, id, name string, perm fs.FileMode, parents bool) error {
	s, path, err := r.file("mkdir", id, name)
	if err != nil {
		return err
	}
	return s.named("mkdir", name, s.client.Mkdir(ctx, path, perm, parents))
}

// Remove implements FileSystem.
func (r *Runtime) Remove(ctx context.Context, id, name string, tree bool) error {
	s, path, err := r.file("remove", id, name)
	if err != nil {
		return err
	}
	if path == s.row.Workdir {
		return invalidName("remove", name, errors.New("the working directory itself stays"))
	}
	return s.named("remove", name, s.client.Remove(ctx, path, tree))
}

// Ports implements PortLister.
func (r *Runtime) Ports(ctx context.Context, id string) ([]int, error) {
	s, err := r.find("ports", id)
	if err != nil {
		return nil, err
	}
	list, err := s.client.Ports(ctx)
	if err != nil {
		return nil, &Error{Op: "ports", ID: id, Err: s.fate(err)}
	}
	ports := make([]int, len(list))
	for i, p := range list {
		ports[i] = int(p)
	}
	return ports, nil
}

// DialContext implements Dialer.
func (r *Runtime) DialContext(ctx context.Context, id, network, address string) (net.Conn, error) {
	s, err := r.find("dial", id)
	if err != nil {
		return nil, err
	}
	port, err := loopback.Port(network, address)
	if err != nil {
		return nil, &Error{Op: "dial", ID: id, Err: invalid("%v", err)}
	}
	c, err := s.client.DialPort(ctx, uint16(port))
	if e, ok := errors.AsType[*wire.Error](err); ok {
		err = &net.OpError{Op: "dial", Net: network, Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Err: e.Errno}
	}
	if err != nil {
		return nil, &Error{Op: "dial", ID: id, Err: s.fate(err)}
	}
	return c, nil
}
