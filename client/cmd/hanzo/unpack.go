package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/hanzoai/sandbox/sandbox"
)

func (t *transfer) downloadFolder(from, to string) error {
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	err = t.downloadArchive(from, root)
	if _, ok := errors.AsType[*sandbox.StartError](err); ok { // there is no tar inside
		err = t.downloadEach(from, root)
	}
	return err
}

// downloadArchive unpacks what a tar inside packs. Whatever that sends, it
// gets nowhere but below root.
func (t *transfer) downloadArchive(from string, root *os.Root) error {
	t.meter.expect(root.Name(), 0)
	ctx, cancel := context.WithCancel(t.app.ctx)
	defer cancel()
	r, w := io.Pipe()
	var said remarks
	ran := make(chan error, 1)
	go func() {
		cmd := t.sb.Command("tar", "-c", "-f", "-", "-C", from, ".")
		cmd.Stdout, cmd.Stderr = w, &said
		err := cmd.Run(ctx)
		w.CloseWithError(err) // without one it is the end
		ran <- err
	}()
	found := &links{}
	unpackErr := t.unpack(bufio.NewReaderSize(r, 256<<10), root, found)
	if unpackErr == nil {
		_, unpackErr = io.Copy(io.Discard, r) // what fills the last block
	}
	_, failed := errors.AsType[*sandbox.ExitError](unpackErr)
	if unpackErr == nil || failed {
		if err := found.make(root, t.leftOut); err != nil {
			unpackErr = err
		}
	}
	if unpackErr != nil {
		cancel()
	}
	r.CloseWithError(io.ErrClosedPipe)
	err := <-ran
	switch exit, failed := errors.AsType[*sandbox.ExitError](err); {
	case failed && exit.Cause == sandbox.CauseExit && said.Len() > 0:
		return fmt.Errorf("%s: %s", from, strings.TrimSpace(said.String()))
	case err != nil && ctx.Err() == nil:
		return err
	}
	return unpackErr
}

func (t *transfer) unpack(r io.Reader, root *os.Root, found *links) error {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		perm := fs.FileMode(header.Mode).Perm() &^ umask()
		switch header.Typeflag {
		case tar.TypeDir:
			if name != "." {
				err = root.MkdirAll(name, perm|own)
			}
		case tar.TypeReg:
			err = t.place(root, name, perm, header, archive)
		case tar.TypeLink:
			err = t.link(root, path.Clean(header.Linkname), name)
		case tar.TypeSymlink:
			err = found.add(name, header.Linkname)
		default:
			t.leftOut(name, notCopied)
		}
		if err != nil {
			return err
		}
	}
}

// place writes a file below root, whole or not at all.
func (t *transfer) place(root *os.Root, name string, perm fs.FileMode, header *tar.Header, r io.Reader) error {
	if t.update {
		here, err := root.Stat(name)
		if err == nil && here.Size() == header.Size && !here.ModTime().Before(header.ModTime) {
			return nil
		}
	}
	return t.write(root, name, perm, t.meter.reader(r))
}

// link gives a file below root another name.
func (t *transfer) link(root *os.Root, old, name string) error {
	there, err := root.Lstat(old)
	if err != nil || !there.Mode().IsRegular() {
		t.leftOut(name, "the file that it is another name of is not there")
		return nil
	}
	if here, err := root.Lstat(name); err == nil && os.SameFile(here, there) {
		return nil
	}
	return replace(root, name, func(part string) error { return root.Link(old, part) })
}

func (t *transfer) write(root *os.Root, name string, perm fs.FileMode, r io.Reader) error {
	return replace(root, name, func(part string) error {
		f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
		if err != nil {
			return err
		}
		return errors.Join(t.fill(f, r, 0), f.Close())
	})
}

// replace puts what is made under another name into its place.
func replace(root *os.Root, name string, create func(part string) error) error {
	dir, base := path.Split(name)
	part := path.Join(dir, partOf(base, ""))
	if err := root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := create(part)
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		root.Remove(part) //nolint:errcheck // it may not have come into being
	}
	return err
}

const (
	pieceSize = 128 << 10
	pageSize  = 4096
)

var zeros [pieceSize]byte

// fill writes a file from its end on, which is at size, with holes where it
// has nothing but zeros: an archive can have more of them than any disk.
func (t *transfer) fill(f *os.File, r io.Reader, size int64) error {
	if t.buf == nil {
		t.buf = make([]byte, pieceSize)
	}
	hole := false
	for {
		if t.app.ctx.Err() != nil {
			return context.Cause(t.app.ctx)
		}
		n, err := r.Read(t.buf)
		if n > 0 {
			size += int64(n)
			var failed error
			if hole = n >= pageSize && bytes.Equal(t.buf[:n], zeros[:n]); hole {
				_, failed = f.Seek(size, io.SeekStart)
			} else {
				_, failed = f.Write(t.buf[:n])
			}
			if failed != nil {
				return failed
			}
		}
		switch {
		case errors.Is(err, io.EOF) && hole:
			return f.Truncate(size)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// downloadEach is for sandboxes without tar.
func (t *transfer) downloadEach(from string, root *os.Root) error {
	tree, err := fs.Sub(t.sb.FS(t.app.ctx), from)
	if err != nil {
		return err
	}
	found := &links{}
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case d.IsDir():
			return root.MkdirAll(name, 0o777)
		case d.Type() == fs.ModeSymlink:
			target, err := fs.ReadLink(tree, name)
			if err != nil {
				return err
			}
			return found.add(name, target)
		case !d.Type().IsRegular():
			t.leftOut(name, notCopied)
			return nil
		}
		f, err := tree.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return t.write(root, name, info.Mode().Perm()&^umask(), t.meter.reader(f))
	})
	if err != nil {
		return err
	}
	return found.make(root, t.leftOut)
}
