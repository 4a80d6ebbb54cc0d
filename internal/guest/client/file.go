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
	l, err := c.list(ctx, path)
	if err != nil {
		return nil, err
	}
	defer l.call.Close()
	list := []fs.DirEntry{}
	for {
		part, err := l.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		list = append(list, part...)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// A listing is a directory as it comes, in no order.
type listing struct {
	call  *call
	path  string
	count int
}

func (c *Client) list(ctx context.Context, path string) (*listing, error) {
	l, err := c.start(ctx, &wire.Request{Op: wire.OpReadDir, Path: path})
	if err != nil {
		return nil, err
	}
	if _, err := l.promptOK(); err != nil {
		l.Close()
		return nil, pathError("readdir", path, err)
	}
	return &listing{call: l, path: path}, nil
}

// next returns some entries, or io.EOF after the last.
func (l *listing) next() (list []fs.DirEntry, err error) {
	kind, payload, err := l.call.next()
	switch {
	case err != nil:
		return nil, pathError("readdir", l.path, err)
	case kind == wire.KindEnd:
		return nil, io.EOF
	case kind != wire.KindData:
		return nil, fmt.Errorf("readdir %s: the sandbox broke the protocol: frame %d", l.path, kind)
	}
	err = wire.EachEntry(payload, func(s wire.Stat) error {
		if l.count == maxEntries {
			return fmt.Errorf("readdir %s: more than %d entries", l.path, maxEntries)
		}
		if len(s.Name) > maxName || s.Name == "" || s.Name == "." || s.Name == ".." || strings.ContainsAny(s.Name, "/\x00") {
			return fmt.Errorf("readdir %s: the sandbox gave the name %q: %w", l.path, s.Name, fs.ErrInvalid)
		}
		l.count++
		list = append(list, info{s})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// A dir is an open directory. It is listed when it is first read: whole and
// sorted, or in parts, as they come.
type dir struct {
	client  *Client
	ctx     context.Context //nolint:containedctx // as for FS: an fs.File has no place for one
	path    string
	info    info
	listing *listing // once it is read in parts
	list    []fs.DirEntry
	err     error // after what is in list
}

func (d *dir) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *dir) Close() error {
	d.list, d.err = nil, &fs.PathError{Op: "readdir", Path: d.path, Err: fs.ErrClosed}
	if d.listing == nil {
		return nil
	}
	l := d.listing
	d.listing = nil
	return l.call.Close()
}

func (d *dir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: syscall.EISDIR}
}

func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		return d.readAll()
	}
	for len(d.list) < n && d.err == nil {
		d.advance()
	}
	if len(d.list) == 0 {
		return nil, d.err
	}
	n = min(n, len(d.list))
	list := d.list[:n:n]
	d.list = d.list[n:]
	return list, nil
}

func (d *dir) readAll() ([]fs.DirEntry, error) {
	if d.listing == nil && d.err == nil {
		list, err := d.client.ReadDir(d.ctx, d.path)
		if err != nil {
			return nil, err
		}
		d.err = io.EOF
		return list, nil
	}
	for d.err == nil {
		d.advance()
	}
	list := d.list
	d.list = nil
	if d.err != io.EOF {
		return list, d.err
	}
	return list, nil
}

func (d *dir) advance() {
	if d.listing == nil {
		if d.listing, d.err = d.client.list(d.ctx, d.path); d.err != nil {
			return
		}
	}
	var part []fs.DirEntry
	part, d.err = d.listing.next()
	d.list = append(d.list, part...)
	if d.err != nil {
		d.listing.call.Close()
		d.listing = nil
	}
}
