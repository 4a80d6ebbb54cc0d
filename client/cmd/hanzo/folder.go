package main

import (
	"archive/tar"
	"bufio"
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
	var list struct {
		Stats []struct {
			Name, Type string
			Size       int64
			Mtime      time.Time
		}
	}
	if t.app.ask(q, &list) != nil {
		return entries // there is no such folder, or no telling
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

const notCopied = "it is neither a file nor a folder"

// leftOut says what is not copied.
func (t *transfer) leftOut(name, why string) {
	t.meter.say(fmt.Sprintf("%s: left out, as %s", inLine(name), why))
}
