package initd

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A host is the other end of a connection.
type host struct {
	*os.File
	t  *testing.T
	in *wire.Reader
}

// connect makes both ends of a connection. Reading at the host's end is
// bounded in time.
func connected(t *testing.T) (*conn, *host) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[1]), "host")
	f.SetDeadline(time.Now().Add(5 * time.Second))
	t.Cleanup(func() { f.Close() })
	return newConn(fds[0]), &host{File: f, t: t, in: wire.NewReader(f)}
}

func (h *host) send(kind wire.Kind, payload []byte) {
	h.t.Helper()
	if _, err := h.Write(wire.AppendFrame(nil, kind, payload)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) next(want wire.Kind) string {
	h.t.Helper()
	kind, payload, err := h.in.Next()
	if err != nil || kind != want {
		h.t.Fatalf("frame %d %q, %v, where %d was due", kind, payload, err, want)
	}
	return string(payload)
}

func (h *host) nextError() (e wire.Error) {
	h.t.Helper()
	if err := e.Decode([]byte(h.next(wire.KindError))); err != nil {
		h.t.Fatal(err)
	}
	return e
}

// ended fails the test if anything but the end follows.
func (h *host) ended() {
	h.t.Helper()
	if kind, payload, err := h.in.Next(); err == nil || os.IsTimeout(err) {
		h.t.Fatalf("frame %d %q, %v, where the end was due", kind, payload, err)
	}
}

// serving serves one connection and waits for it at the end of the test.
func serving(t *testing.T, s *server) *host {
	t.Helper()
	c, h := connected(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve(c)
	}()
	t.Cleanup(func() {
		h.Close()
		<-done
	})
	return h
}

func TestServe(t *testing.T) {
	ask := func(r wire.Request) []byte { return wire.AppendFrame(nil, wire.KindRequest, r.Append(nil)) }
	newer := ask(wire.Request{Op: wire.OpPing})
	newer[5] = wire.Version + 1
	for name, c := range map[string]struct {
		sent []byte
		want wire.Error
	}{
		"not a request":   {wire.AppendFrame(nil, wire.KindData, nil), wire.Error{Errno: syscall.EPROTO}},
		"a newer version": {newer, wire.Error{Errno: syscall.EPROTO, Text: wire.ErrVersion.Error()}},
		"malformed":       {wire.AppendFrame(nil, wire.KindRequest, []byte{1, 1}), wire.Error{Errno: syscall.EPROTO, Text: "malformed message"}},
		"no operation":    {ask(wire.Request{}), wire.Error{Errno: syscall.ENOSYS, Text: "unknown operation"}},
		"unknown":         {ask(wire.Request{Op: 200}), wire.Error{Errno: syscall.ENOSYS, Text: "unknown operation"}},
		"no program":      {ask(wire.Request{Op: wire.OpExec, UID: 1, GID: 1}), wire.Error{Phase: wire.PhaseStart, Errno: syscall.EINVAL, Text: "no program named"}},
		"root's program":  {ask(wire.Request{Op: wire.OpExec, Argv: []string{"sh"}, GID: 1}), wire.Error{Phase: wire.PhaseStart, Errno: syscall.EPERM, Text: "commands do not run as root"}},
		"root's group":    {ask(wire.Request{Op: wire.OpExec, Argv: []string{"sh"}, UID: 1}), wire.Error{Phase: wire.PhaseStart, Errno: syscall.EPERM, Text: "commands do not run as root"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			h := serving(t, &server{})
			h.Write(c.sent)
			is.Equal(h.nextError(), c.want)
			h.ended() // one operation a connection
		})
	}
	for name, sent := range map[string][]byte{
		"nothing":      nil,
		"half a frame": {byte(wire.KindRequest), 9, 0, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := serving(t, &server{})
			h.Write(sent)
			raw, err := h.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_WR) })
			h.ended() // without a word
		})
	}
	t.Run("ping", func(t *testing.T) {
		h := serving(t, &server{})
		h.Write(ask(wire.Request{Op: wire.OpPing}))
		h.next(wire.KindOK)
		h.ended()
	})
	t.Run("too much", func(t *testing.T) {
		h := serving(t, &server{})
		h.Write([]byte{byte(wire.KindRequest), 1, 0, 0x40, 0}) // MaxRequest and one byte
		h.ended()
	})
}

// TestQueueKeepsOrder of what is queued, what is too large for that, and what
// is sent at once.
func TestQueueKeepsOrder(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	var want []string
	go func() {
		defer c.Close()
		for i, size := range []int{1, 10, queueLimit / 2, queueLimit, 5, 3 * queueLimit, 0, 7, queueLimit - 5, 100} {
			payload := strings.Repeat(string(rune('a'+i)), size)
			if err := c.queue(wire.AppendFrame(nil, wire.KindData, []byte(payload))); err != nil {
				t.Error(err)
			}
			if len(c.out) > queueLimit {
				t.Errorf("%d bytes wait", len(c.out))
			}
		}
		if err := c.send(wire.KindEnd, nil); err != nil {
			t.Error(err)
		}
		if err := c.flush(); err != nil || len(c.out) != 0 {
			t.Errorf("%d bytes are left, %v", len(c.out), err)
		}
	}()
	for i, size := range []int{1, 10, queueLimit / 2, queueLimit, 5, 3 * queueLimit, 0, 7, queueLimit - 5, 100} {
		want = append(want, strings.Repeat(string(rune('a'+i)), size))
	}
	for _, w := range want {
		is.True(h.next(wire.KindData) == w) // in the order in which they were queued
	}
	h.next(wire.KindEnd)
	h.ended()
}

func TestWriteToClosedHost(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	defer c.Close()
	h.Close()
	is.True(errors.Is(c.send(wire.KindOK, nil), syscall.EPIPE)) // an error, and no signal
}

func TestWireError(t *testing.T) {
	own := &wire.Error{Phase: wire.PhaseStart, Errno: syscall.ENOEXEC, Path: "/p", Text: "t"}
	for name, c := range map[string]struct {
		err  error
		want wire.Error
	}{
		"errno":      {syscall.EACCES, wire.Error{Errno: syscall.EACCES}},
		"path error": {&fs.PathError{Op: "open", Path: "/f", Err: syscall.ENOENT}, wire.Error{Errno: syscall.ENOENT, Path: "/f"}},
		"own":        {own, *own},
		"wrapped":    {errors.Join(own), *own},
		"sentence":   {errors.New("why"), wire.Error{Text: "why"}},
		"closed":     {&fs.PathError{Op: "read", Path: "/f", Err: fs.ErrClosed}, wire.Error{Path: "/f", Text: "read /f: file already closed"}},
	} {
		if got := wireError(c.err); *got != c.want {
			t.Errorf("%s: %+v", name, *got)
		}
	}
}

func TestStartError(t *testing.T) {
	is := is.New(t)
	e, ok := startError(syscall.ENOENT, "prog").(*wire.Error)
	is.True(ok)
	is.Equal(*e, wire.Error{Phase: wire.PhaseStart, Errno: syscall.ENOENT, Path: "prog"})
	e, ok = startError(&fs.PathError{Path: "/dev/null", Err: syscall.EMFILE}, "prog").(*wire.Error)
	is.True(ok)
	is.Equal(e.Path, "/dev/null") // what is known better stays
}

func TestErrorsFitTheirFrame(t *testing.T) {
	is := is.New(t)
	long := strings.Repeat("x", wire.MaxData)
	is.True(len(wireError(pathError("stat", long, syscall.ENAMETOOLONG)).Append(nil)) <= wire.MaxData)
	is.True(len(wireError(startError(syscall.ENOENT, long)).Append(nil)) <= wire.MaxData)
}
