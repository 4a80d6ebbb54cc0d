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
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// uploaded is what an init has got of a file.
type uploaded struct {
	request wire.Request
	content string
	whole   bool // the host said that this was all
	dropped bool // the host gave it up
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
			case kind == wire.KindKill:
				u.dropped = true
				g.fail(wire.Error{Errno: syscall.ECANCELED})
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
			is.NoErr(c.Write(within(t, patience), "/f", src, fs.ModeSetuid|0o640))
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
				err := c.Write(within(t, patience), "/f", src, 0o644)
				is.True(errors.Is(err, want)) // the source's error
				if u := <-got; u.whole || !u.dropped {
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
				err := serve(t, script).Write(within(t, patience), "/f", src, 0o644)
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
	err := c.Write(within(t, patience), "/f", endless{}, 0o644)
	is.True(errors.Is(err, client.ErrLost))
}

func TestWriteToSilentInit(t *testing.T) {
	t.Parallel() // it waits for the grace
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
	err := c.Write(ctx, "/f", endless{}, 0o644)
	close(done)
	is.True(errors.Is(err, cause))
}

// TestWriteOfBlockedSource: no Read can be called back, but the call can
// return without it.
func TestWriteOfBlockedSource(t *testing.T) {
	for name, script := range map[string]func(*guest){
		"silent": (*guest).wait,
		"confirms": func(g *guest) {
			g.request()
			g.hear(wire.KindKill)
			g.fail(wire.Error{Errno: syscall.ECANCELED})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				src, w := io.Pipe()
				defer w.Close()
				returned := make(chan error, 1)
				go func() { returned <- pipe(t, script).Write(ctx, "/f", src, 0o644) }()
				later(time.Hour)
				is.Equal(len(returned), 0) // a source may take its time
				cancel(errWhy)
				if name == "silent" {
					later(time.Second)
				}
				synctest.Wait()
				is.Equal(len(returned), 1)
				is.True(errors.Is(<-returned, errWhy))
			})
		})
	}
}

// TestWriteToInitThatEnds while the source blocks.
func TestWriteToInitThatEnds(t *testing.T) {
	for name, script := range map[string]func(*guest){
		"lost":    func(g *guest) { g.request() },
		"refuses": func(g *guest) { g.request(); g.fail(wire.Error{Errno: syscall.ENOSPC}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is := is.New(t)
				src, w := io.Pipe()
				defer w.Close()
				returned := make(chan error, 1)
				go func() { returned <- pipe(t, script).Write(t.Context(), "/f", src, 0o644) }()
				synctest.Wait()
				is.Equal(len(returned), 1) // at once
				err := <-returned
				is.Equal(errors.Is(err, client.ErrLost), name == "lost")
				is.Equal(errors.Is(err, syscall.ENOSPC), name == "refuses")
			})
		})
	}
}

// A trickle is a source of a byte at a time, each when it is asked for.
type trickle struct{ bytes chan byte }

func (s trickle) Read(p []byte) (int, error) {
	b, ok := <-s.bytes
	if !ok {
		return 0, io.EOF
	}
	p[0] = b
	return 1, nil
}

func TestNoFurtherReadAfterWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		src := trickle{make(chan byte)}
		defer close(src.bytes)
		returned := make(chan error, 1)
		go func() {
			returned <- pipe(t, func(g *guest) { g.request(); g.fail(wire.Error{Errno: syscall.EACCES}) }).Write(t.Context(), "/f", src, 0o644)
		}()
		synctest.Wait()
		is.True(errors.Is(<-returned, fs.ErrPermission))
		taken := 0
		for range 10 {
			select {
			case src.bytes <- 'x':
				taken++
			case <-time.After(time.Second):
			}
		}
		is.True(taken <= 1) // the Read that was under way
	})
}

func TestWriteRefusedByDeafInit(t *testing.T) {
	is := is.New(t)
	done := make(chan struct{})
	defer close(done)
	c := serve(t, func(g *guest) {
		g.request()
		g.hear(wire.KindData)
		g.fail(wire.Error{Errno: syscall.EACCES})
		<-done
	})
	ctx := within(t, patience)
	is.True(errors.Is(c.Write(ctx, "/f", endless{}, 0o644), fs.ErrPermission))
	is.NoErr(ctx.Err())
}
