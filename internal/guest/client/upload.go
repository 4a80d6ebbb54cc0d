package client

import (
	"context"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// Write replaces the file at path by what src has, all of it or nothing. An
// existing file keeps its mode. When ctx ends, or the sandbox, Write returns
// although src may block; a Read of it may then still be under way, because it
// cannot be called back.
func (c *Client) Write(ctx context.Context, path string, src io.Reader, perm fs.FileMode) error {
	l, err := c.start(ctx, &wire.Request{Op: wire.OpWrite, Path: path, Perm: uint32(perm.Perm())})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.release(); err != nil {
		return err
	}
	up := &upload{call: l, src: src}
	stop := context.AfterFunc(ctx, up.abort)
	defer stop()
	go up.copy()
	_, err = l.expectOK()
	l.SetDeadline(time.Unix(1, 0)) // for a frame that is under way
	up.stopped.Store(true)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed := up.failure(); failed != nil {
		return failed
	}
	return pathError("write", path, err)
}

// An upload sends a reader as the frames of a file.
type upload struct {
	call *call
	src  io.Reader

	stopped atomic.Bool // Write returns: src is not to be read any more

	mu      sync.Mutex
	aborted bool
	err     error // of src
}

func (u *upload) copy() {
	buf := wire.NewBuffer(wire.MaxData)
	for !u.stopped.Load() {
		n, err := u.fill(buf.Payload())
		if n > 0 && !u.send(buf.Frame(wire.KindData, n)) {
			return
		}
		if err == io.EOF {
			u.send(buf.Frame(wire.KindEnd, 0))
			return
		}
		if err != nil {
			u.mu.Lock()
			u.err = err
			u.mu.Unlock()
			u.abort()
			return
		}
	}
}

// fill is io.ReadFull, but for the end: a source that was cut says
// io.ErrUnexpectedEOF itself, and that must not pass for its end.
func (u *upload) fill(p []byte) (n int, err error) {
	for n < len(p) && err == nil && !u.stopped.Load() {
		var m int
		m, err = u.src.Read(p[n:])
		n += m
	}
	return n, err
}

func (u *upload) send(frame []byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.aborted {
		return false
	}
	_, err := u.call.Conn.Write(frame)
	return err == nil
}

// abort has the init drop what it has got, which it then confirms: a caller
// that has been told of the failure does not find half a file.
func (u *upload) abort() {
	u.call.SetDeadline(time.Now().Add(killGrace))
	if u.send(wire.AppendFrame(nil, wire.KindKill, nil)) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.aborted = true
	}
}

func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}
