package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// large files go by themselves, whole or not at all; of others many go in one
// stream.
const large = 4 << 20

// An entry is a file of a folder.
type entry struct {
	name string // below the folder, with slashes
	info fs.FileInfo
}

func (t *transfer) uploadFolder(from, to string) error {
	entries, err := t.walk(from)
	if err != nil {
		return err
	}
	if t.update {
		entries = t.missing(entries, to)
	}
	if err := t.sb.Mkdir(t.app.ctx, to, 0o755); err != nil {
		return err
	}
	var small, rest []entry
	for _, e := range entries {
		if e.info.Mode().IsRegular() && e.info.Size() >= large {
			rest = append(rest, e)
			continue
		}
		small = append(small, e)
	}
	if len(small) > 0 {
		err = t.uploadArchive(from, to, small)
		if _, ok := errors.AsType[*sandbox.StartError](err); ok { // there is no tar inside
			err = t.uploadEach(from, to, small)
		}
	}
	if err != nil {
		return err
	}
	return t.uploadEach(from, to, rest)
}

// walk lists what there is to copy.
func (t *transfer) walk(dir string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		below, relErr := filepath.Rel(dir, name)
		if relErr != nil {
			return relErr
		}
		if below == "." {
			return err
		}
		if err != nil {
			t.cannotRead(err)
			return nil
		}
		info, err := d.Info()
		if err != nil {
			t.cannotRead(err)
			return nil
		}
		if !info.Mode().IsRegular() && !info.IsDir() && info.Mode().Type() != fs.ModeSymlink {
			t.leftOut(name, notCopied)
			return nil
		}
		entries = append(entries, entry{filepath.ToSlash(below), info})
		return nil
	})
	return entries, err
}

// cannotRead says what of this machine cannot be read, and is left out.
func (t *transfer) cannotRead(err error) {
	t.unread++
	t.meter.say(err.Error())
}

// missing leaves out what is there already.
func (t *transfer) missing(entries []entry, to string) []entry {
	q := get("v1", "sandbox", t.id, "fs")
	q.query = values("path", to, "verbatim", "1", "stat", "tree")
	resp, err := t.app.do(q)
	if err != nil {
		return entries // there is no such folder, or no telling
	}
	defer resp.Body.Close()
	var list struct {
		Stats []struct {
			Name, Type string
			Size       int64
			Mtime      time.Time
		}
	}
	if json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&list) != nil {
		return entries
	}
	there := map[string]int{}
	for i, s := range list.Stats {
		there[s.Name] = i
	}
	var out []entry
	for _, e := range entries {
		if i, ok := there[e.name]; ok && e.info.Mode().IsRegular() {
			s := &list.Stats[i]
			if s.Type == "file" && s.Size == e.info.Size() && !s.Mtime.Before(e.info.ModTime().Truncate(time.Second)) {
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

func (t *transfer) uploadEach(from, to string, entries []entry) error {
	for _, e := range entries {
		var err error
		switch target := path.Join(to, e.name); {
		case e.info.IsDir():
			err = t.sb.Mkdir(t.app.ctx, target, e.info.Mode().Perm()|own)
		case e.info.Mode().IsRegular():
			err = t.uploadFile(filepath.Join(from, filepath.FromSlash(e.name)), target)
		default:
			t.leftOut(e.name, "it is a link, and there is no tar in the sandbox")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uploadArchive has a tar inside unpack what one here packs.
func (t *transfer) uploadArchive(from, to string, entries []entry) error {
	total := int64(0)
	for _, e := range entries {
		total += e.info.Size()
	}
	t.meter.expect(to, total)
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := t.pack(w, from, entries)
		w.CloseWithError(err)
		packed <- err
	}()
	var said remarks
	cmd := t.sb.Command("tar", "-x", "-p", "-f", "-", "-C", to)
	cmd.Stdin, cmd.Stderr = r, &said
	err := cmd.Run(t.app.ctx)
	r.CloseWithError(io.ErrClosedPipe)
	if err := <-packed; err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	if _, ok := errors.AsType[*sandbox.ExitError](err); ok && said.Len() > 0 {
		return fmt.Errorf("%s: %s", to, strings.TrimSpace(said.String()))
	}
	return err
}

// remarks are the beginning of what a program says.
type remarks struct{ strings.Builder }

// maxRemarks bounds what is kept of them.
const maxRemarks = 8 << 10

func (r *remarks) Write(p []byte) (int, error) {
	r.Builder.Write(p[:min(len(p), maxRemarks-r.Len())])
	return len(p), nil
}

func (t *transfer) pack(to io.Writer, from string, entries []entry) error {
	buffered := bufio.NewWriterSize(to, 256<<10)
	w := tar.NewWriter(buffered)
	for _, e := range entries {
		if err := t.packOne(w, from, e); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), buffered.Flush())
}

// own are an owner's rights, which every folder has that is copied: what is in
// it is copied after it.
const own = 0o700

func (t *transfer) packOne(w *tar.Writer, from string, e entry) error {
	name, target := filepath.Join(from, filepath.FromSlash(e.name)), ""
	info := e.info
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		var err error
		if target, err = os.Readlink(name); err != nil {
			t.cannotRead(err)
			return nil
		}
	case info.Mode().IsRegular():
		f, err := openFile(name)
		if err != nil {
			t.cannotRead(err)
			return nil
		}
		defer f.Close()
		if info, err = f.Stat(); err != nil {
			return err
		}
		header, err := header(e.name, info, "")
		if err != nil {
			return err
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		n, err := io.Copy(w, t.meter.reader(io.LimitReader(f, header.Size)))
		if err == nil && n < header.Size {
			err = fmt.Errorf("%s: it became shorter meanwhile", name)
		}
		return err
	}
	header, err := header(e.name, info, target)
	if err != nil {
		return err
	}
	return w.WriteHeader(header)
}

// openFile opens a file, and nothing that has come into its place.
func openFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|noFollow|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s: it is no file any more", name)
	}
	return f, nil
}

func header(name string, info fs.FileInfo, target string) (*tar.Header, error) {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return nil, err
	}
	h.Name = name
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	h.Mode &= 0o777
	if info.IsDir() {
		h.Mode |= own
	}
	return h, nil
}

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

const notCopied = "it is neither a file nor a folder"

// leftOut says what is not copied.
func (t *transfer) leftOut(name, why string) {
	t.meter.say(fmt.Sprintf("%s: left out, as %s", inLine(name), why))
}
