package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hanzoai/sandbox/sandbox"
)

// A transfer copies between this machine and a sandbox.
type transfer struct {
	app    *app
	id     string
	sb     *sandbox.Sandbox
	update bool
	meter  *meter
}

// uploadFile writes a file, which is there as a whole or not at all.
func (t *transfer) uploadFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if t.update {
		there, err := fs.Stat(t.sb.FS(t.app.ctx), to)
		if err == nil && there.Size() == info.Size() && !there.ModTime().Before(info.ModTime()) {
			return nil
		}
	}
	t.meter.expect(to, info.Size())
	return t.sb.WriteFile(t.app.ctx, to, t.meter.reader(f), info.Mode().Perm())
}

// downloadFile reads a file to a part beside its place, from which it goes on
// if it is interrupted, and puts that into its place.
func (t *transfer) downloadFile(from, to string, info fs.FileInfo) error {
	if t.update {
		here, err := os.Stat(to)
		if err == nil && here.Size() == info.Size() && !here.ModTime().Before(info.ModTime()) {
			return nil
		}
	}
	if to == "-" {
		return t.readFrom(os.Stdout, from, 0)
	}
	// A part is of one version of the file.
	version := fnv.New64a()
	fmt.Fprintf(version, "%s %s %d %d", t.id, from, info.Size(), info.ModTime().UnixNano())
	part := filepath.Join(filepath.Dir(to), fmt.Sprintf(".%s.%x.part", filepath.Base(to), version.Sum64()))
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR|noFollow, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	had, err := f.Seek(0, io.SeekEnd)
	if err == nil && had > info.Size() {
		had, err = 0, f.Truncate(0)
	}
	if err != nil {
		return err
	}
	t.meter.expect(to, info.Size())
	t.meter.add(had)
	if err := t.readFrom(f, from, had); err != nil {
		return err
	}
	if err := f.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	return os.Rename(part, to)
}

// readFrom reads a file from an offset on.
func (t *transfer) readFrom(w io.Writer, name string, offset int64) error {
	f, err := t.sb.FS(t.app.ctx).Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if offset > 0 {
		seeker, ok := f.(io.Seeker)
		if !ok {
			return errors.ErrUnsupported
		}
		if _, err := seeker.Seek(offset, io.SeekStart); err != nil {
			return err
		}
	}
	_, err = io.Copy(w, t.meter.reader(f))
	return err
}

// writeFile replaces a file by what f writes, or leaves it as it was.
func writeFile(name string, perm fs.FileMode, f func(io.Writer) error) error {
	part, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	err = f(part)
	if err == nil {
		err = part.Chmod(perm &^ umask())
	}
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}
