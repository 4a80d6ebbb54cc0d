package initd

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A listener accepts connections without package net, which would double the
// time that the init takes to start.
type listener struct{ raw syscall.RawConn }

func listen(path string) (*listener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return nil, err
	}
	raw, err := os.NewFile(uintptr(fd), path).SyscallConn()
	return &listener{raw: raw}, err
}

func (l *listener) accept() (*conn, error) {
	var fd int
	var err error
	waitErr := l.raw.Read(func(ln uintptr) bool {
		for {
			fd, _, err = unix.Accept4(int(ln), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if err != unix.EINTR && err != unix.ECONNABORTED {
				return err != unix.EAGAIN
			}
		}
	})
	if waitErr != nil {
		return nil, waitErr
	}
	if err != nil {
		return nil, err
	}
	return newConn(os.NewFile(uintptr(fd), "conn")), nil
}

// A conn is one connection from the host. Its reader and its writers may be
// different goroutines.
type conn struct {
	*os.File
	in *wire.Reader

	mu  sync.Mutex
	out *bufio.Writer
}

func newConn(f *os.File) *conn {
	return &conn{File: f, in: wire.NewReader(f), out: bufio.NewWriterSize(f, 4<<10)}
}

// send writes a small frame at once.
func (c *conn) send(kind wire.Kind, payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(wire.AppendFrame(make([]byte, 0, 64), kind, payload))
	return c.out.Flush()
}

// queue writes a frame that may wait for the next flush.
func (c *conn) queue(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.out.Write(frame)
	return err
}

// write writes a frame at once.
func (c *conn) write(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(frame)
	return c.out.Flush()
}

func (c *conn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Flush()
}

func (c *conn) fail(e *wire.Error) { c.send(wire.KindError, e.Append(nil)) }

// wireError says err in the protocol's terms.
func wireError(err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	e := &wire.Error{}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		e.Path = p.Path
	}
	if !errors.As(err, &e.Errno) {
		e.Text = err.Error()
	}
	return e
}
