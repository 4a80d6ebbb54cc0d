package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

var regular = wire.Stat{Name: "f", Size: 9, Mode: syscall.S_IFREG | 0o640, ModTime: time.Unix(1_800_000_000, 5)}

func TestStat(t *testing.T) {
	is := is.New(t)
	asked := make(chan wire.Request, 2)
	c := serve(t, func(g *guest) {
		asked <- g.request()
		g.send(wire.KindOK, stat(regular))
	})
	info, err := c.Stat(within(t, patience), "/dir/f")
	is.NoErr(err)
	is.Equal(info.Name(), "f")
	is.Equal(info.Size(), int64(9))
	is.Equal(info.Mode(), fs.FileMode(0o640))
	is.True(info.ModTime().Equal(regular.ModTime))
	is.True(!info.IsDir())
	_, err = c.Lstat(within(t, patience), "/dir/f")
	is.NoErr(err)
	first, second := <-asked, <-asked
	is.Equal(first, wire.Request{Op: wire.OpStat, Path: "/dir/f"})
	is.Equal(second, wire.Request{Op: wire.OpLstat, Path: "/dir/f"})
}

func TestOddStats(t *testing.T) {
	for name, payload := range map[string]string{
		"negative size": stat(wire.Stat{Name: "f", Size: -1}),
		"nothing":       "",
		"odd mode":      stat(wire.Stat{Name: "f", Mode: 1<<32 - 1}),
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c := serve(t, func(g *guest) { g.request(); g.send(wire.KindOK, payload) })
			info, err := c.Stat(within(t, patience), "/f")
			is.NoErr(err)
			is.True(info.Size() >= 0)
		})
	}
	t.Run("malformed", func(t *testing.T) {
		is := is.New(t)
		c := serve(t, func(g *guest) { g.request(); g.send(wire.KindOK, "\x01\x7f") })
		_, err := c.Stat(within(t, patience), "/f")
		is.True(err != nil)
	})
}

// TestNameIsTheCallers: a name is something that programs join to a path.
func TestNameIsTheCallers(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, stat(wire.Stat{Name: "../../etc/passwd", Mode: syscall.S_IFREG}))
	})
	info, err := c.Stat(within(t, patience), "/dir/f")
	is.NoErr(err)
	is.Equal(info.Name(), "f")
	f, err := c.Open(within(t, patience), "/dir/f", nothing)
	is.NoErr(err)
	defer f.Close()
	info, err = f.Stat()
	is.NoErr(err)
	is.Equal(info.Name(), "f")
}

func TestMkdirAndRemove(t *testing.T) {
	is := is.New(t)
	asked := make(chan wire.Request, 2)
	c := serve(t, func(g *guest) {
		asked <- g.request()
		g.send(wire.KindOK, "")
	})
	is.NoErr(c.Mkdir(within(t, patience), "/d", fs.ModeDir|fs.ModeSetuid|0o751, true))
	is.NoErr(c.Remove(within(t, patience), "/d", true))
	first, second := <-asked, <-asked
	is.Equal(first, wire.Request{Op: wire.OpMkdir, Path: "/d", Perm: 0o751, All: true}) // permission bits alone
	is.Equal(second, wire.Request{Op: wire.OpRemove, Path: "/d", All: true})
}

// file serves one file, in frames of the given sizes.
func file(t *testing.T, content string, sizes ...int) *client.Client {
	return serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, stat(regular))
		rest := content
		for _, n := range sizes {
			g.send(wire.KindData, rest[:n])
			rest = rest[n:]
		}
		if rest != "" {
			g.send(wire.KindData, rest)
		}
		g.send(wire.KindEnd, "")
	})
}

func open(t *testing.T, c *client.Client) fs.File {
	t.Helper()
	f, err := c.Open(within(t, patience), "/dir/f", nothing)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestRead(t *testing.T) {
	content := strings.Repeat("0123456789", 20_000)
	sizes := []int{1, 0, 2, 4096, 0, 0, 100_000}
	t.Run("read", func(t *testing.T) {
		is := is.New(t)
		is.NoErr(iotest.TestReader(struct{ io.Reader }{open(t, file(t, content, sizes...))}, []byte(content)))
	})
	t.Run("copy", func(t *testing.T) {
		is := is.New(t)
		var got strings.Builder
		n, err := io.Copy(&got, open(t, file(t, content, sizes...)))
		is.NoErr(err)
		is.Equal(n, int64(len(content)))
		is.True(got.String() == content)
	})
	t.Run("read, then copy", func(t *testing.T) {
		is := is.New(t)
		f := open(t, file(t, content, sizes...))
		begin := make([]byte, 50)
		_, err := io.ReadFull(f, begin)
		is.NoErr(err)
		rest, err := io.ReadAll(f)
		is.NoErr(err)
		is.True(string(begin)+string(rest) == content)
	})
	t.Run("empty", func(t *testing.T) {
		is := is.New(t)
		f := open(t, file(t, ""))
		n, err := f.Read(nil)
		is.Equal(n, 0)
		is.NoErr(err) // nothing asked for
		n, err = f.Read(make([]byte, 1))
		is.Equal(n, 0)
		is.Equal(err, io.EOF)
	})
	t.Run("stat", func(t *testing.T) {
		is := is.New(t)
		info, err := open(t, file(t, "")).Stat()
		is.NoErr(err)
		is.Equal(info.Size(), int64(9))
	})
}

// TestBrokenFiles: a file that stops in the middle has no end.
func TestBrokenFiles(t *testing.T) {
	for name, rest := range map[string]string{
		"cut between frames": "",
		"cut in a header":    string(header(wire.KindData, 9)[:2]),
		"cut in a frame":     string(append(header(wire.KindData, 9), "part"...)),
		"failure":            string(wire.AppendFrame(nil, wire.KindError, (&wire.Error{Errno: syscall.EIO}).Append(nil))),
		"another kind":       string(wire.AppendFrame(nil, wire.KindStdout, []byte("out"))),
		"a second answer":    string(wire.AppendFrame(nil, wire.KindOK, nil)),
		"an unknown kind":    string(wire.AppendFrame(nil, 99, nil)),
		"oversized frame":    string(header(wire.KindData, wire.MaxData+1)),
	} {
		t.Run(name, func(t *testing.T) {
			broken := func(t *testing.T) fs.File {
				return open(t, serve(t, func(g *guest) {
					g.request()
					g.send(wire.KindOK, stat(regular))
					g.send(wire.KindData, "begin")
					g.raw([]byte(rest))
				}))
			}
			is := is.New(t)
			f := broken(t)
			b, err := io.ReadAll(f)
			is.Equal(string(b), "begin") // what came before
			is.True(err != nil)          // is not all
			_, again := f.Read(make([]byte, 1))
			is.Equal(again, err) // and the error stays
			var out bytes.Buffer
			n, err := io.Copy(&out, broken(t))
			is.Equal(out.String(), "begin")
			is.Equal(n, int64(5))
			is.True(err != nil)
			is.Equal(name == "failure", errors.Is(err, syscall.EIO))
		})
	}
}

func TestCutFileIsNoEndOfFile(t *testing.T) {
	is := is.New(t)
	f := open(t, serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, stat(regular))
		g.send(wire.KindData, "begin")
	}))
	_, err := io.ReadAll(f)
	is.True(err != nil && !errors.Is(err, io.EOF))
	is.True(errors.Is(err, client.ErrLost))
}

// TestReadEndsWithContext also for a file that was opened before.
func TestReadEndsWithContext(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, stat(regular))
		g.send(wire.KindData, "begin")
		g.wait()
	})
	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	f, err := c.Open(ctx, "/f", nothing)
	is.NoErr(err)
	defer f.Close()
	_, err = io.ReadFull(f, make([]byte, 5))
	is.NoErr(err)
	cancel(cause)
	_, err = f.Read(make([]byte, 1))
	is.True(errors.Is(err, cause))
}

func TestCloseFile(t *testing.T) {
	is := is.New(t)
	f := open(t, serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, stat(regular))
		for g.send(wire.KindData, "without end") {
		}
	}))
	_, err := f.Read(make([]byte, 3))
	is.NoErr(err)
	is.NoErr(f.Close())
	_, err = f.Read(make([]byte, 3))
	is.True(errors.Is(err, fs.ErrClosed))
	n, err := f.(io.WriterTo).WriteTo(io.Discard)
	is.Equal(n, int64(0))
	is.True(errors.Is(err, fs.ErrClosed))
	is.True(errors.Is(f.Close(), fs.ErrClosed))
}

// A stingyWriter takes a byte of each Write, and notes how often it is asked
// for nothing.
type stingyWriter struct {
	took  int
	empty int
	err   error
}

func (w *stingyWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		w.empty++
		return 0, nil
	}
	w.took++
	return 1, w.err
}

func TestCopyToFailingWriter(t *testing.T) {
	is := is.New(t)
	full := errors.New("full")
	n, err := open(t, file(t, "content")).(io.WriterTo).WriteTo(&stingyWriter{err: full})
	is.Equal(err, full)
	is.Equal(n, int64(1))
}

func TestCopyToShortWriter(t *testing.T) {
	is := is.New(t)
	w := &stingyWriter{}
	_, err := open(t, file(t, "content")).(io.WriterTo).WriteTo(w)
	is.Equal(err, io.ErrShortWrite) // as io.Copy has it
}

func TestCopyWritesNothingEmpty(t *testing.T) {
	is := is.New(t)
	w := &stingyWriter{}
	_, err := open(t, file(t, "")).(io.WriterTo).WriteTo(w)
	is.NoErr(err)
	is.Equal(w.empty, 0)
}
