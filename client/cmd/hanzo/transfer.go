package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/sandbox"
)

// A transfer copies between this machine and a sandbox.
type transfer struct {
	app    *app
	id     string
	remote *client.Remote
	sb     *sandbox.Sandbox
	update bool
	meter  *meter
	buf    []byte
	unread int // how much of this machine's was left out
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
		there, err := t.remote.Stat(t.app.ctx, t.id, to)
		if err == nil && there.Size() == info.Size() && !there.ModTime().Before(info.ModTime()) {
			return nil
		}
	}
	t.meter.expect(to, info.Size())
	return t.sb.WriteFile(t.app.ctx, to, t.meter.reader(f), info.Mode().Perm())
}

// downloadFile reads a file to a part beside its place, from which it goes on
// if it is interrupted, and puts that into its place.
func (t *transfer) downloadFile(from fs.File, name, to string, info fs.FileInfo) error {
	if t.update {
		here, err := os.Stat(to)
		if err == nil && here.Size() == info.Size() && !here.ModTime().Before(info.ModTime()) {
			return nil
		}
	}
	to, special := placeOf(to)
	if special {
		return writeSpecial(to, func(w io.Writer) error {
			_, err := io.Copy(w, t.meter.reader(from))
			return err
		})
	}
	// A part is of one version of the file.
	version := fmt.Sprintf("%s %s %d %d", t.id, name, info.Size(), info.ModTime().UnixNano())
	part := filepath.Join(filepath.Dir(to), partOf(filepath.Base(to), version))
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
	if err := skip(from, had); err != nil {
		return err
	}
	if err := t.fill(f, t.meter.reader(from), had); err != nil {
		return err
	}
	if err := f.Chmod(info.Mode().Perm() &^ umask()); err != nil {
		return err
	}
	return os.Rename(part, to)
}

// skip leaves out the beginning of a file.
func skip(f fs.File, n int64) error {
	if n == 0 {
		return nil
	}
	seeker, ok := f.(io.Seeker)
	if !ok {
		return errors.ErrUnsupported
	}
	_, err := seeker.Seek(n, io.SeekStart)
	return err
}

// partOf is the name of what becomes a file, in the same folder. It is no
// longer than names can be, and that of no other file.
func partOf(base, version string) string {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\x00%s", base, version)
	return fmt.Sprintf(".%.50s.%016x.part", base, sum.Sum64())
}

// placeOf is where a file goes that is to have a name: to where a link leads.
// What is there and no file, as a device or a pipe, is special: it is written
// to and stays.
func placeOf(name string) (at string, special bool) {
	if there, err := os.Stat(name); err == nil && !there.Mode().IsRegular() && !there.IsDir() {
		return name, true
	}
	if at, err := filepath.EvalSymlinks(name); err == nil {
		return at, false
	}
	return name, false
}

func writeSpecial(name string, f func(io.Writer) error) error {
	w, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f(w), w.Close())
}

// writeFile replaces a file by what f writes, or leaves it as it was.
func writeFile(name string, perm fs.FileMode, f func(io.Writer) error) error {
	name, special := placeOf(name)
	if special {
		return writeSpecial(name, f)
	}
	part, err := os.CreateTemp(filepath.Dir(name), fmt.Sprintf(".%.50s.*", filepath.Base(name)))
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
