package client

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A TreeEntry is what is at one path below a directory.
type TreeEntry struct {
	Path    string
	Type    fs.FileMode
	Info    fs.FileInfo // nil if it has not changed, as far as was tracked
	Omitted wire.Omitted
}

// Tree lists what is below the directory at path, in the order in which it is
// found.
func (c *Client) Tree(ctx context.Context, path string, t wire.Tree, each func(TreeEntry) error) error {
	t.Track = false
	l, err := c.start(ctx, &wire.Request{Op: wire.OpTree, Path: path, Tree: t})
	if err != nil {
		return pathError("readdir", path, err)
	}
	defer l.Close()
	return readTree(l, path, &t, each)
}

func readTree(l *call, path string, t *wire.Tree, each func(TreeEntry) error) error {
	if _, err := l.promptOK(); err != nil {
		return pathError("readdir", path, err)
	}
	count := 0
	for {
		kind, payload, err := l.next()
		switch {
		case err != nil:
			return pathError("readdir", path, err)
		case kind == wire.KindEnd:
			return nil
		case kind != wire.KindData:
			return fmt.Errorf("readdir %s: the sandbox broke the protocol: frame %d", path, kind)
		}
		err = wire.EachTreeEntry(payload, func(e *wire.TreeEntry) error {
			if count++; count > 2*t.Entries+1 { // each is found, and may be left out as a folder
				return fmt.Errorf("readdir %s: more than %d entries", path, t.Entries)
			}
			if !isBelow(e.Name) && !(e.Name == "." && e.Omitted != 0) {
				return fmt.Errorf("readdir %s: the sandbox gave the name %q: %w", path, clip(e.Name), fs.ErrInvalid)
			}
			return each(treeEntry(e))
		})
		if err != nil {
			return err
		}
	}
}

func treeEntry(e *wire.TreeEntry) TreeEntry {
	found := TreeEntry{Path: e.Name, Type: e.FileMode().Type(), Omitted: e.Omitted}
	if e.Changed {
		i := info{e.Stat}
		i.Stat.Name = e.Name[strings.LastIndexByte(e.Name, '/')+1:]
		found.Info = i
	}
	return found
}

func clip(s string) string { return s[:min(len(s), maxSaid)] }

// isBelow reports whether a path is one below a directory. Unlike fs.ValidPath
// it lets names be that are not UTF-8: they exist.
func isBelow(path string) bool {
	if strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." || len(name) > maxName {
			return false
		}
	}
	return true
}

// A Tracking notes what changes below a directory.
type Tracking struct {
	call *call
	path string
	tree wire.Tree
}

// Track begins to note what changes below the directory at path. It ends with
// ctx, and is to be closed.
func (c *Client) Track(ctx context.Context, path string, t wire.Tree) (*Tracking, error) {
	t.Track = true
	l, err := c.start(ctx, &wire.Request{Op: wire.OpTree, Path: path, Tree: t})
	if err != nil {
		return nil, pathError("track", path, err)
	}
	if _, err := l.promptOK(); err != nil {
		l.Close()
		return nil, pathError("track", path, err)
	}
	return &Tracking{call: l, path: path, tree: t}, nil
}

// Tree ends the tracking with a listing like Client.Tree, which has the Info of
// what has changed.
func (t *Tracking) Tree(each func(TreeEntry) error) error {
	r := wire.Request{Op: wire.OpTree, Path: t.path}
	if _, err := t.call.Write(wire.AppendFrame(nil, wire.KindRequest, r.Append(nil))); err != nil {
		return t.call.failure(err)
	}
	return readTree(t.call, t.path, &t.tree, each)
}

// Close ends the tracking.
func (t *Tracking) Close() error { return t.call.Close() }
