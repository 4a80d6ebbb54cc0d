//go:build linux

package sandbox

import (
	"context"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// spec is what the init is asked for.
func (o *TreeOptions) spec() wire.Tree {
	return wire.Tree{Entries: o.Entries, Depth: o.Depth, SkipHidden: o.SkipHidden, Skip: o.Skip, Except: o.Except}
}

// Tree implements TreeLister.
func (r *Runtime) Tree(ctx context.Context, id string, o TreeOptions) (*Tree, error) {
	u, path, err := r.file("readdir", id, o.Dir)
	if err != nil {
		return nil, err
	}
	defer u.done()
	t := &Tree{}
	if err := u.client.Tree(ctx, path, o.spec(), t.add); err != nil {
		return nil, u.named("readdir", o.Dir, err)
	}
	return t.sort(), nil
}

// add takes what the init has found.
func (t *Tree) add(e client.TreeEntry) error {
	var why OmissionReason
	switch e.Omitted {
	case 0:
		t.Entries = append(t.Entries, TreeEntry{e.Path, e.Type, e.Info})
		return nil
	case wire.OmittedDepth:
		why = OmittedDepth
	case wire.OmittedEntries:
		why = OmittedEntries
	default:
		why = OmittedUnreadable
	}
	t.Omitted = append(t.Omitted, Omission{e.Path, why})
	return nil
}

// Track implements TreeLister.
func (r *Runtime) Track(ctx context.Context, id string, o TreeOptions) (Tracker, error) {
	u, path, err := r.file("track", id, o.Dir)
	if err != nil {
		return nil, err
	}
	t, err := u.client.Track(ctx, path, o.spec())
	if err != nil {
		defer u.done()
		return nil, u.named("track", o.Dir, err)
	}
	return &tracking{use: u, tracking: t, dir: o.Dir}, nil
}

// A tracking is the Tracker of a sandbox's init.
type tracking struct {
	use      use
	tracking *client.Tracking
	dir      string
}

func (t *tracking) Tree() (*Tree, error) {
	tree := &Tree{}
	if err := t.tracking.Tree(tree.add); err != nil {
		return nil, t.use.named("readdir", t.dir, err)
	}
	return tree.sort(), nil
}

func (t *tracking) Close() error {
	defer t.use.done()
	return t.tracking.Close()
}
