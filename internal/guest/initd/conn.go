package initd

import (
	"errors"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// Inside the engine it costs more to wake a second thread than to make a
// hundred system calls. So a connection is accepted, read and answered by one
// thread that blocks, instead of by goroutines that the runtime's poller wakes:
// measured, an empty round trip takes half the time.

// listen makes the socket that the host dials.
func listen(path string) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		return -1, err
	}
	return fd, syscall.Listen(fd, syscall.SOMAXCONN)
}

// spareAcceptors is how many threads wait for connections when all is quiet.
const spareAcceptors = 2

// shortage is how long to wait before accepting again when there is nothing
// to accept with.
const shortage = 10 * time.Millisecond

// acceptors keeps some thread waiting for connections while others work.
type acceptors struct {
	listener int
	serve    func(*conn)
	waiting  atomic.Int32
}

// run accepts and serves until the init ends. A thread that leaves to work
// sees to it that another waits in its stead.
func (a *acceptors) run() {
	for {
		a.waiting.Add(1)
		fd, _, err := syscall.Accept4(a.listener, syscall.SOCK_CLOEXEC)
		if left := a.waiting.Add(-1); left == 0 {
			go a.run()
		}
		switch err {
		case nil:
			a.serve(newConn(fd))
		case syscall.EINTR, syscall.ECONNABORTED:
		case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM:
			time.Sleep(shortage) //nolint:forbidigo // nobody says when something else gives some back
		default:
			fatal("accept", err)
		}
		if a.waiting.Load() >= spareAcceptors {
			return
		}
	}
}

// A conn is one connection from the host, used by one goroutine.
type conn struct {
	fd  int
	in  *wire.Reader
	out []byte // frames that wait for flush
}

func newConn(fd int) *conn {
	c := &conn{fd: fd}
	c.in = wire.NewReader(c)
	return c
}

func (c *conn) Read(p []byte) (int, error) { return readFD(c.fd, p) }

func (c *conn) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := syscall.Write(c.fd, p[written:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// hungUp reports whether the host has given up the connection.
func (c *conn) hungUp() bool {
	p := []sys.PollFd{{Fd: int32(c.fd)}}
	n, _ := sys.Poll(p, 0)
	return n > 0 && p[0].Revents&(sys.POLLHUP|sys.POLLERR) != 0
}

func (c *conn) Close() error { return syscall.Close(c.fd) }

// readFD is a blocking read that tells the end as io.Reader does.
func readFD(fd int, p []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, p)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// queueLimit is how much waits for a flush at most.
const queueLimit = 4 << 10

// queue sends a frame, now or with the next ones.
func (c *conn) queue(frame []byte) error {
	if len(c.out)+len(frame) <= queueLimit {
		c.out = append(c.out, frame...)
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	_, err := c.Write(frame)
	return err
}

// send sends a short frame now.
func (c *conn) send(kind wire.Kind, payload []byte) error {
	c.out = wire.AppendFrame(c.out, kind, payload)
	return c.flush()
}

func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.Write(c.out)
	c.out = c.out[:0]
	return err
}

// maxSaid is how much of a path or sentence an error repeats: a request is
// larger than the frame of its answer.
const maxSaid = 4 << 10

func clip(s string) string { return s[:min(len(s), maxSaid)] }

func (c *conn) fail(e *wire.Error) { c.send(wire.KindError, e.Append(nil)) }

// wireError says err in the protocol's terms.
func wireError(err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	e := &wire.Error{}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		e.Path = clip(p.Path)
	}
	if e.Errno, _ = errors.AsType[syscall.Errno](err); e.Errno == 0 {
		e.Text = clip(err.Error())
	}
	return e
}
