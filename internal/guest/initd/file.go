package initd

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// errNotRegular is the answer for what is neither file nor directory: a pipe
// may block for ever, and a device may have no end.
var errNotRegular = &wire.Error{Errno: syscall.EINVAL, Text: "not a regular file"}

func statOf(name string, st *syscall.Stat_t) wire.Stat {
	return wire.Stat{
		Name: name, Size: st.Size, Mode: st.Mode,
		ModTime: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix()),
	}
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

func (s *server) stat(c *conn, r *wire.Request) error {
	var st syscall.Stat_t
	err := s.user.do(func() error {
		if r.Op == wire.OpLstat {
			return pathError("lstat", r.Path, syscall.Lstat(r.Path, &st))
		}
		return pathError("stat", r.Path, syscall.Stat(r.Path, &st))
	})
	if err != nil {
		return err
	}
	reply := statOf(base(r.Path), &st)
	return c.send(wire.KindOK, reply.Append(nil))
}

func (s *server) readlink(c *conn, r *wire.Request) error {
	var target string
	err := s.user.do(func() (err error) {
		target, err = os.Readlink(r.Path)
		return err
	})
	if err != nil {
		return err
	}
	return c.send(wire.KindOK, []byte(target))
}

// readDir lists a directory, each entry as lstat saw it.
func (s *server) readDir(c *conn, r *wire.Request) error {
	var dir *os.File
	err := s.user.do(func() (err error) {
		dir, err = os.OpenFile(r.Path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := c.queue(wire.AppendFrame(nil, wire.KindOK, nil)); err != nil {
		return err
	}
	for {
		var part []byte
		err := s.user.do(func() error {
			names, err := dir.Readdirnames(256)
			for _, name := range names {
				part = appendEntry(part, dir, name)
			}
			return err
		})
		if len(part) > 0 {
			if err := c.queue(wire.AppendFrame(nil, wire.KindData, part)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return c.queue(wire.AppendFrame(nil, wire.KindEnd, nil))
		}
		if err != nil {
			return err
		}
	}
}

// appendEntry leaves out what has been removed since the name was read.
func appendEntry(b []byte, dir *os.File, name string) []byte {
	var st syscall.Stat_t
	err := control(dir, func(fd int) error { return sys.LstatAt(fd, name, &st) })
	if err != nil {
		return b
	}
	entry := statOf(name, &st)
	return wire.AppendEntry(b, &entry)
}

// control runs op on a file's descriptor.
func control(f *os.File, op func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = op(int(fd)) }); e != nil {
		return e
	}
	return err
}

// read sends a file from an offset to its end. Of a directory it says only
// what it is. Opened without O_NOCTTY, a guest's terminal would become that of
// process 1, which its keys could then signal.
func (s *server) read(c *conn, r *wire.Request) error {
	var f *os.File
	var st syscall.Stat_t
	err := s.user.do(func() (err error) {
		if f, err = os.OpenFile(r.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0); err != nil {
			return err
		}
		return control(f, func(fd int) error { return pathError("stat", r.Path, syscall.Fstat(fd, &st)) })
	})
	if f != nil {
		defer f.Close()
	}
	if err != nil {
		return err
	}
	reply := statOf(base(r.Path), &st)
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
	case syscall.S_IFDIR:
		return c.send(wire.KindOK, reply.Append(nil))
	default:
		return errNotRegular
	}
	if err := c.queue(wire.AppendFrame(nil, wire.KindOK, reply.Append(nil))); err != nil {
		return err
	}
	return sendFile(c, f, r.Offset, st.Size)
}

func sendFile(c *conn, f *os.File, offset, size int64) error {
	offset = max(offset, 0)
	if offset > 0 {
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			return err
		}
	}
	buf := wire.NewBuffer(int(min(max(size-offset, chunk-1)+1, wire.MaxData)))
	for {
		n, err := f.Read(buf.Payload())
		if n > 0 {
			if err := c.queue(buf.Frame(wire.KindData, n)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return c.queue(wire.AppendFrame(nil, wire.KindEnd, nil))
		}
		if err != nil {
			return err
		}
	}
}

func (s *server) mkdir(c *conn, r *wire.Request) error {
	err := s.user.do(func() error {
		if r.All {
			return os.MkdirAll(r.Path, os.FileMode(r.Perm&0o777))
		}
		return os.Mkdir(r.Path, os.FileMode(r.Perm&0o777))
	})
	if err != nil {
		return err
	}
	return c.send(wire.KindOK, nil)
}

func (s *server) remove(c *conn, r *wire.Request) error {
	err := s.user.do(func() error {
		if r.All {
			return os.RemoveAll(r.Path)
		}
		return os.Remove(r.Path)
	})
	if err != nil {
		return err
	}
	return c.send(wire.KindOK, nil)
}
