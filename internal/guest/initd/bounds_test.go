package initd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

func TestBounds(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	is.Equal(g.cpus(), 0)                // all
	is.Equal(g.bounds.Pids, uint64(512)) // by default
	is.NoErr(g.bound(wire.Bounds{Memory: 1 << 30, Quota: 150_000, Pids: 7, AllPids: 70}))
	is.Equal(g.cpus(), 2)
	is.Equal(contents(t, g.root, "memory.max"), "1073741824")
	is.Equal(contents(t, g.root, "cpu.max"), "150000 100000")
	is.Equal(contents(t, g.root, "pids.max"), "70")
	is.NoErr(g.bound(wire.Bounds{Quota: 50_000})) // the others stay
	is.Equal(g.cpus(), 1)
	is.Equal(g.bounds, wire.Bounds{Memory: 1 << 30, Quota: 50_000, Pids: 7, AllPids: 70})
}

// TestWatchSetsBounds when it has some: a later request may only move the end.
func TestWatchSetsBounds(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	h := serving(t, &server{groups: g, fuse: newFuse()})
	h.send(wire.KindRequest, (&wire.Request{Op: wire.OpWatch, Bounds: wire.Bounds{Memory: 4096, Pids: 3}}).Append(nil))
	h.next(wire.KindOK)
	h.send(wire.KindRequest, (&wire.Request{Op: wire.OpWatch, Deadline: time.Now().Add(time.Hour)}).Append(nil))
	h.next(wire.KindOK)
	is.Equal(contents(t, g.root, "memory.max"), "4096")
	is.Equal(g.bounds.Pids, uint64(3))
}

func TestBoundsThatCannotBeSet(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	is.NoErr(os.Remove(filepath.Join(g.root, "pids.max")))
	h := serving(t, &server{groups: g, fuse: newFuse()})
	h.send(wire.KindRequest, (&wire.Request{Op: wire.OpWatch, Bounds: wire.Bounds{AllPids: 3}}).Append(nil))
	e := h.nextError()
	is.Equal(e.Path, g.root+"/pids.max") // the host is not to believe that they hold
}
