package client_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// list serves one listing.
func list(t *testing.T, names ...string) *client.Client {
	return serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, "")
		for part := range slices.Chunk(names, 2) {
			var b []byte
			for _, name := range part {
				b = wire.AppendEntry(b, &wire.Stat{Name: name, Size: 3, Mode: syscall.S_IFDIR | 0o755, ModTime: regular.ModTime})
			}
			g.raw(wire.AppendFrame(nil, wire.KindData, b))
		}
		g.send(wire.KindEnd, "")
	})
}

func TestReadDir(t *testing.T) {
	is := is.New(t)
	want := []string{"...", ".x", " ", "-", "a", "b b", "new\nline", "é", "\xff", "\\", strings.Repeat("n", 255)}
	entries, err := list(t, want...).ReadDir(within(t, patience), "/d")
	is.NoErr(err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
		info, err := e.Info()
		is.NoErr(err)
		is.Equal(info.Size(), int64(3))
		is.True(e.IsDir() && e.Type() == fs.ModeDir && info.Mode() == fs.ModeDir|0o755)
	}
	slices.Sort(want)
	is.Equal(got, want) // sorted
	entries, err = list(t).ReadDir(within(t, patience), "/d")
	is.NoErr(err)
	is.True(entries != nil && len(entries) == 0)
}

func TestReadDirRefusesNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "/", "/etc", "../x", "a\x00b", "\x00"} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			is := is.New(t)
			entries, err := list(t, "good", "fine", name).ReadDir(within(t, patience), "/d")
			is.True(errors.Is(err, fs.ErrInvalid))
			is.Equal(len(entries), 0) // and nothing of the rest
		})
	}
}

func TestReadDirRefusesLongNames(t *testing.T) {
	is := is.New(t)
	_, err := list(t, strings.Repeat("n", 256)).ReadDir(within(t, patience), "/d")
	is.True(err != nil) // no file system has a longer name than 255 bytes
}

// TestEndlessListing: the guest chooses how long a listing is, up to a limit.
func TestEndlessListing(t *testing.T) {
	is := is.New(t)
	entry := "\x01\x03\x01\x01n" // as short as one can be
	part := wire.AppendFrame(nil, wire.KindData, []byte(strings.Repeat(entry, wire.MaxData/len(entry))))
	sent := make(chan int, 1)
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, "")
		n := 0
		for g.raw(part) {
			n += wire.MaxData / len(entry)
		}
		sent <- n
	})
	ctx := within(t, 10*patience) // a million entries, under the race detector too
	_, err := c.ReadDir(ctx, "/d")
	is.True(err != nil)
	is.NoErr(ctx.Err())
	is.True(<-sent < 2<<20) // it was cut off soon after 2^20
}

// TestEmptyListingFrames: a listing without entries ends with its context.
func TestEmptyListingFrames(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		g.request()
		g.send(wire.KindOK, "")
		for g.send(wire.KindData, "") {
		}
	})
	_, err := c.ReadDir(within(t, 20*time.Millisecond), "/d")
	is.True(errors.Is(err, errDeadline))
}

func TestBrokenListings(t *testing.T) {
	for name, rest := range map[string]string{
		"cut":              "",
		"cut in a frame":   string(append(header(wire.KindData, 100), "part"...)),
		"malformed":        string(wire.AppendFrame(nil, wire.KindData, []byte{1, 9})),
		"malformed entry":  string(wire.AppendFrame(nil, wire.KindData, []byte{1, 2, 1, 9})),
		"failure":          string(wire.AppendFrame(nil, wire.KindError, (&wire.Error{Errno: syscall.EIO}).Append(nil))),
		"oversized frame":  string(header(wire.KindData, wire.MaxData+1)),
		"oversized and on": string(header(wire.KindRequest, wire.MaxRequest+1)) + strings.Repeat("x", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			c := serve(t, func(g *guest) {
				g.request()
				g.send(wire.KindOK, "")
				g.raw(wire.AppendFrame(nil, wire.KindData, wire.AppendEntry(nil, &wire.Stat{Name: "n"})))
				g.raw([]byte(rest))
			})
			entries, err := c.ReadDir(within(t, patience), "/d")
			is.True(err != nil)
			is.Equal(len(entries), 0) // a part of a listing is none
		})
	}
}

func TestListingOfAnotherKind(t *testing.T) {
	for _, kind := range []wire.Kind{wire.KindOK, wire.KindStdout, wire.KindRequest, 99} {
		is := is.New(t)
		c := serve(t, func(g *guest) {
			g.request()
			g.send(wire.KindOK, "")
			g.send(kind, string(wire.AppendEntry(nil, &wire.Stat{Name: "n"})))
			g.send(wire.KindEnd, "")
		})
		_, err := c.ReadDir(within(t, patience), "/d")
		is.True(err != nil)
	}
}

func TestOpenDirectory(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		r := g.request()
		if r.Op == wire.OpRead {
			g.send(wire.KindOK, stat(wire.Stat{Name: "d", Mode: syscall.S_IFDIR | 0o755}))
			g.wait()
			return
		}
		g.send(wire.KindOK, "")
		for _, name := range []string{"c", "a", "b"} {
			g.send(wire.KindData, string(wire.AppendEntry(nil, &wire.Stat{Name: name})))
		}
		g.send(wire.KindEnd, "")
	})
	page := func(d fs.ReadDirFile, n int) (names string, err error) {
		entries, err := d.ReadDir(n)
		for _, e := range entries {
			names += e.Name()
		}
		return names, err
	}
	d := open(t, c).(fs.ReadDirFile)
	info, err := d.Stat()
	is.NoErr(err)
	is.True(info.IsDir())
	_, err = d.Read(make([]byte, 1))
	is.True(errors.Is(err, syscall.EISDIR))
	for _, want := range []string{"ca", "b"} { // pages are as they come
		names, err := page(d, 2)
		is.NoErr(err)
		is.Equal(names, want)
	}
	_, err = page(d, 2)
	is.Equal(err, io.EOF) // a page beyond the last
	names, err := page(open(t, c).(fs.ReadDirFile), -1)
	is.NoErr(err)
	is.Equal(names, "abc")
	is.NoErr(d.Close())
	_, err = page(d, 2)
	is.True(errors.Is(err, fs.ErrClosed))
}

// A page of a directory that has no end takes no more than the page.
func TestOpenEndlessDirectory(t *testing.T) {
	is := is.New(t)
	c := serve(t, func(g *guest) {
		r := g.request()
		if r.Op == wire.OpRead {
			g.send(wire.KindOK, stat(wire.Stat{Name: "d", Mode: syscall.S_IFDIR | 0o755}))
			g.wait()
			return
		}
		g.raw(wire.AppendFrame(nil, wire.KindOK, nil))
		entry := wire.AppendFrame(nil, wire.KindData, wire.AppendEntry(nil, &wire.Stat{Name: "n"}))
		for {
			if _, err := g.Conn.Write(entry); err != nil {
				return // the client has hung up
			}
		}
	})
	d := open(t, c).(fs.ReadDirFile)
	for range 3 {
		entries, err := d.ReadDir(10)
		is.NoErr(err)
		is.Equal(len(entries), 10)
	}
	is.NoErr(d.Close())
}
