package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	gopath "path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// The guest chooses how long a listing is, and the names in it.
const (
	maxEntries = 1 << 20
	maxName    = 255 // NAME_MAX
)

// info is what the init says of a file. It is both fs.FileInfo and, in a
// listing, fs.DirEntry.
type info struct{ wire.Stat }

func (i info) Name() string               { return i.Stat.Name }
func (i info) Size() int64                { return i.Stat.Size }
func (i info) Mode() fs.FileMode          { return i.Stat.FileMode() }
func (i info) Type() fs.FileMode          { return i.Mode().Type() }
func (i info) ModTime() time.Time         { return i.Stat.ModTime }
func (i info) ChangeTime() time.Time      { return i.Stat.Changed }
func (i info) IsDir() bool                { return i.Mode().IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Info() (fs.FileInfo, error) { return i, nil }
func (i info) String() string             { return fs.FormatFileInfo(i) }

// pathError says in package fs's terms what failed on name.
func pathError(op, name string, err error) error {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: cause(e)}
}

// cause is the system's error, or the init's own sentence as an invalid use.
func cause(e *wire.Error) error {
	switch {
	case e.Errno != 0 && e.Text != "":
		return fmt.Errorf("%s: %w", e.Text, e.Errno)
	case e.Errno != 0:
		return e.Errno
	}
	return errors.New(e.Text)
}

// Stat describes the file at path, or what a link there points to.
func (c *Client) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return c.stat(ctx, "stat", path, wire.OpStat)
}

// Lstat describes the file at path, also if it is a link.
func (c *Client) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	return c.stat(ctx, "lstat", path, wire.OpLstat)
}

func (c *Client) stat(ctx context.Context, verb, path string, op wire.Op) (fs.FileInfo, error) {
	b, err := c.ask(ctx, &wire.Request{Op: op, Path: path})
	if err != nil {
		return nil, pathError(verb, path, err)
	}
	var i info
	if err := i.Decode(b); err != nil {
		return nil, err
	}
	i.Stat.Name = gopath.Base(path)
	return i, nil
}

// Readlink returns where the link at path points.
func (c *Client) Readlink(ctx context.Context, path string) (string, error) {
	b, err := c.ask(ctx, &wire.Request{Op: wire.OpReadlink, Path: path})
	return string(b), pathError("readlink", path, err)
}

// Mkdir makes a directory, and with all also its parents.
func (c *Client) Mkdir(ctx context.Context, path string, perm fs.FileMode, all bool) error {
	_, err := c.ask(ctx, &wire.Request{Op: wire.OpMkdir, Path: path, Perm: uint32(perm.Perm()), All: all})
	return pathError("mkdir", path, err)
}

// Remove removes a file or an empty directory, with all whatever is there,
// which takes as long as it takes.
func (c *Client) Remove(ctx context.Context, path string, all bool) error {
	r := &wire.Request{Op: wire.OpRemove, Path: path, All: all}
	if !all {
		_, err := c.ask(ctx, r)
		return pathError("remove", path, err)
	}
	l, err := c.start(ctx, r)
	if err != nil {
		return err
	}
	defer l.Close()
	_, err = l.expectOK()
	return pathError("remove", path, err)
}

// ReadDir lists a directory, sorted by name.
func (c *Client) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	l, err := c.start(ctx, &wire.Request{Op: wire.OpReadDir, Path: path})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if _, err := l.promptOK(); err != nil {
		return nil, pathError("readdir", path, err)
	}
	list := []fs.DirEntry{}
	for {
		kind, payload, err := l.next()
		if err != nil {
			return nil, pathError("readdir", path, err)
		}
		if kind == wire.KindEnd {
			break
		}
		if kind != wire.KindData {
			return nil, fmt.Errorf("readdir %s: the sandbox broke the protocol: frame %d", path, kind)
		}
		err = wire.EachEntry(payload, func(s wire.Stat) error {
			if len(list) == maxEntries {
				return fmt.Errorf("readdir %s: more than %d entries", path, maxEntries)
			}
			if len(s.Name) > maxName || s.Name == "" || s.Name == "." || s.Name == ".." || strings.ContainsAny(s.Name, "/\x00") {
				return fmt.Errorf("readdir %s: the sandbox gave the name %q: %w", path, s.Name, fs.ErrInvalid)
			}
			list = append(list, info{s})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// A dir is an open directory. It is listed when it is first read.
type dir struct {
	client *Client
	ctx    context.Context //nolint:containedctx // as for FS: an fs.File has no place for one
	path   string
	info   info
	list   []fs.DirEntry
	read   bool
}

func (d *dir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dir) Close() error               { return nil }

func (d *dir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: syscall.EISDIR}
}

func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		list, err := d.client.ReadDir(d.ctx, d.path)
		if err != nil {
			return nil, err
		}
		d.list, d.read = list, true
	}
	if n <= 0 {
		list := d.list
		d.list = nil
		return list, nil
	}
	if len(d.list) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.list))
	list := d.list[:n:n]
	d.list = d.list[n:]
	return list, nil
}
