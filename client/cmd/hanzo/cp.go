package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// cpCmd copies files and folders.
type cpCmd struct {
	Update bool `short:"u" help:"Leave out files that are there with the same size and are no older."`
	Quiet  bool `short:"q" help:"Show no progress."`

	From string `arg:"" help:"A file or folder: of this machine, or ID:PATH in a sandbox."`
	To   string `arg:"" help:"Where to: the same. With a slash at its end, into that folder."`
}

// Help is what --help adds.
func (c *cpCmd) Help() string {
	return `A folder becomes the one that is named, whether that is there already or not; what else is in it stays. Links come along; of those from a sandbox the ones that lead out of the folder, or could, do not. What cannot be read is said and left out, and the exit code is 1 then. A file of more than 4 MiB that is interrupted is not there by half, and the download of a single file goes on where it was; begin again with -u, which leaves out what has arrived.

A - stands for standard input or output. A name of this machine with a colon is given as ./a:b.

Examples:
  hanzo sandbox cp ./src ID:src
  hanzo sandbox cp data.csv ID:
  hanzo sandbox cp ID:out/plot.png .
  hanzo sandbox cp ID:log - | less`
}

// Run copies.
func (c *cpCmd) Run(a *app) error {
	fromID, from, isFrom := remotePath(c.From)
	toID, to, isTo := remotePath(c.To)
	if isFrom == isTo {
		return usage("one of the two is to be in a sandbox, as ID:PATH, and the other one here; a name here with a colon is given as ./a:b")
	}
	id := fromID + toID
	remote, sb, err := a.sandbox(id)
	if err != nil {
		return err
	}
	t := &transfer{app: a, id: id, remote: remote, sb: sb, update: c.Update, meter: newMeter(c.Quiet)}
	defer t.meter.stop()
	if isTo {
		err = t.upload(c.From, to)
	} else {
		err = t.download(from, c.To)
	}
	t.meter.stop()
	switch {
	case err != nil:
		return a.explain(err)
	case t.unread > 0:
		return fmt.Errorf("%d files or folders could not be read", t.unread)
	}
	return nil
}

// remotePath splits ID:PATH. An id has no slash, so that a name of this
// machine with a colon can be given as ./a:b.
func remotePath(arg string) (id, name string, ok bool) {
	id, name, ok = strings.Cut(arg, ":")
	if !ok || id == "" || strings.ContainsAny(id, `/\.`) {
		return "", "", false
	}
	return id, name, true
}

// into is a target that a file or folder of a name is to be put at.
func into(target, name, separator string) (string, bool) {
	if target == "" || strings.HasSuffix(target, separator) {
		return target + name, true
	}
	return target, false
}

func (t *transfer) upload(from, to string) error {
	if from == "-" {
		if _, inside := into(to, "", "/"); inside {
			return usage("which file is standard input to be? Name it as ID:PATH")
		}
		return t.sb.WriteFile(t.app.ctx, to, t.meter.reader(input{t.app.ctx}), 0o644)
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	base := filepath.Base(from)
	if base == "." || base == ".." || base == "/" {
		full, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		base = filepath.Base(full)
	}
	target, inside := into(to, base, "/")
	if info.IsDir() {
		return t.uploadFolder(from, target)
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "copy", Path: from, Err: errors.New("neither a file nor a folder")}
	}
	if !inside {
		if there, err := t.remote.Stat(t.app.ctx, t.id, target); err == nil && there.IsDir() {
			target = path.Join(target, base)
		}
	}
	return t.uploadFile(from, target)
}

func (t *transfer) download(from, to string) error {
	if from == "" {
		from = "."
	}
	f, err := t.remote.Open(t.app.ctx, t.id, from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	base := path.Base(from)
	if base == "." || base == ".." || base == "/" {
		base = t.id
	}
	target, inside := into(to, base, string(filepath.Separator))
	switch {
	case to == "-" && info.IsDir():
		return usage("%s is a folder, which has no place in standard output; hanzo sandbox exec ID -- tar c has", from)
	case to == "-":
		_, err := io.Copy(os.Stdout, t.meter.reader(f))
		return err
	case info.IsDir():
		return t.downloadFolder(from, target)
	}
	if !inside {
		if there, err := os.Stat(target); err == nil && there.IsDir() {
			target = filepath.Join(target, base)
		}
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	return t.downloadFile(f, from, target, info)
}
