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
	"testing/synctest"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// uploaded is what an init has got of a file.
type uploaded struct {
	request wire.Request
	content string
	whole   bool // the host said that this was all
}

// receive serves one upload.
func receive(t *testing.T) (*client.Client, <-chan uploaded) {
	got := make(chan uploaded, 1)
	return serve(t, func(g *guest) {
		u := uploaded{request: g.request()}
		defer func() { got <- u }()
		for {
			kind, p, err := g.in.Next()
			switch {
			case err != nil:
				return
			case kind == wire.KindData:
				u.content += string(p)
			case kind == wire.KindEnd:
				u.whole = true
				g.send(wire.KindOK, "")
				return
			default:
				t.Errorf("frame %d in an upload", kind)
			}
		}
	}), got
}

func TestWrite(t *testing.T) {
	for _, size := range []int{0, 1, wire.MaxData - 1, wire.MaxData, wire.MaxData + 1, 3*wire.MaxData + 7} {
		content := strings.Repeat("x", size)
		for name, src := range map[string]io.Reader{
			"reader":        strings.NewReader(content),
			"end with data": iotest.DataErrReader(strings.NewReader(content)),
			"halves":        iotest.HalfReader(strings.NewReader(content)),
		} {
			is := is.New(t)
			c, got := receive(t)
			n, err := c.Write(within(t, patience), "/f", src, fs.ModeSetuid|0o640)
			is.NoErr(err)
			is.Equal(n, int64(size))
			u := <-got
			is.True(u.whole)
			if u.content != content {
				t.Errorf("%s: %d bytes became %d", name, size, len(u.content))
			}
			is.Equal(u.request, wire.Request{Op: wire.OpWrite, Path: "/f", Perm: 0o640})
		}
	}
}

// TestWriteOfCutSource: what was cut must not pass for the whole file.
func TestWriteOfCutSource(t *testing.T) {
	broken := errors.New("broken")
	for name, want := range map[string]error{
		"unexpected end": io.ErrUnexpectedEOF,
		"own error":      broken,
		"no more":        fs.ErrClosed,
	} {
		for _, size := range []int{0, 10, wire.MaxData, wire.MaxData + 10} {
			for _, together := range []bool{false, true} {
				is := is.New(t)
				src := io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(want))
				if together {
					src = iotest.DataErrReader(src)
				}
				c, got := receive(t)
				_, err := c.Write(within(t, patience), "/f", src, 0o644)
				is.True(errors.Is(err, want)) // the source's error
				if u := <-got; u.whole {
					t.Errorf("%s: %d of %d bytes were sent as the whole file", name, len(u.content), size)
				}
			}
		}
	}
}

// endless is a source without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestWriteRefused: the init's reason comes out, however much of the file was
// on its way.
func TestWriteRefused(t *testing.T) {
	refusal := wire.Error{Errno: syscall.EACCES, Path: "/f"}
	for name, script := range map[string]func(*guest){
		"at once": func(g *guest) { g.request(); g.fail(refusal) },
		"after some": func(g *guest) {
			g.request()
			g.hear(wire.KindData)
			g.hear(wire.KindData)
			g.fail(refusal)
		},
		"and reads on": func(g *guest) {
			g.request()
			g.fail(refusal)
			g.Conn.(interface{ CloseWrite() error }).CloseWrite()
			for range 20 {
				g.hear(wire.KindData)
			}
		},
		"at the end": func(g *guest) { g.request(); g.hear(wire.KindEnd); g.fail(refusal) },
	} {
		for _, large := range []bool{false, true} {
			src := io.Reader(strings.NewReader("small"))
			if large {
				src = endless{}
			}
			if name == "at the end" || name == "after some" && !large {
				src = bytes.NewReader(make([]byte, 3*wire.MaxData))
			}
			t.Run(name, func(t *testing.T) {
				is := is.New(t)
				_, err := serve(t, script).Write(within(t, patience), "/f", src, 0o644)
				p, ok := errors.AsType[*fs.PathError](err)
				is.True(ok)
				is.Equal(p.Op, "write")
				is.Equal(p.Path, "/f")
				is.Equal(p.Err, error(syscall.EACCES))
				is.True(errors.Is(err, fs.ErrPermission))
			})
		}
	}
}

func TestWriteToLostInit(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) { g.request(); g.hear(wire.KindData) })
	_, err := c.Write(within(t, patience), "/f", endless{}, 0o644)
	is.True(errors.Is(err, client.ErrLost))
}

func TestWriteToSilentInit(t *testing.T) {
	is := is.New(t)
	cause := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	c := serve(t, func(g *guest) {
		g.request()
		g.hear(wire.KindData)
		cancel(cause) // the host is sending, and nobody reads
		<-done
	})
	_, err := c.Write(ctx, "/f", endless{}, 0o644)
	close(done)
	is.True(errors.Is(err, cause))
}

// TestWriteOfBlockedSource: no Read can be called back, but the call can
// return without it.
func TestWriteOfBlockedSource(t *testing.T) {
	bug(t, "Write does not end with its context, nor with the init, while its source blocks in Read")
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		cause := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		src, w := io.Pipe()
		defer w.Close()
		returned := make(chan error, 1)
		go func() {
			_, err := pipe(t, (*guest).wait).Write(ctx, "/f", src, 0o644)
			returned <- err
		}()
		synctest.Wait()
		cancel(cause)
		synctest.Wait()
		is.Equal(len(returned), 1) // it has returned
		is.True(errors.Is(<-returned, cause))
	})
}
