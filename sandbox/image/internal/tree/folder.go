package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Limits on names, far from what any real image has. They keep what works
// down a tree from running out of files or of path.
const (
	maxPath  = 3000
	maxDepth = 200
	maxLinks = 40
)

// A folder is a tree that is being made. It is nobody else's until it is done.
type folder struct {
	root     *os.Root
	resolved map[string]string   // parents as named, and where they really are
	open     map[string]*os.Root // folders by where they really are
	made     func(where string)  // told of each folder that is made on the way
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{root: root, resolved: map[string]string{}, open: map[string]*os.Root{}, made: func(string) {}}, nil
}

func (f *folder) close() {
	f.closeOpen()
	f.root.Close()
}

func (f *folder) closeOpen() {
	for _, r := range f.open {
		r.Close()
	}
	clear(f.open)
}

// forget drops what is known of where names lead, when a folder or a link that
// may be on the way of some has gone.
func (f *folder) forget() {
	f.closeOpen()
	clear(f.resolved)
}

// errOutside is a name that no tree has.
var errOutside = errors.New("a name that leads out of the image")

// clean checks a name from an archive and makes it relative to the top, which
// is ".".
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%.80q: a name with a zero byte", name)
	}
	if len(name) > maxPath {
		return "", fmt.Errorf("%.80q…: a name of %d bytes", name, len(name))
	}
	depth := 0
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return "", fmt.Errorf("%.200q: %w", name, errOutside)
		default:
			depth++
		}
	}
	if depth > maxDepth {
		return "", fmt.Errorf("%.80q…: %d folders deep", name, depth)
	}
	return path.Join(".", strings.TrimLeft(name, "/")), nil
}

// parent returns the folder that a name is in, as it is found from the top,
// following links. With create, folders that are missing are made.
func (f *folder) parent(name string, create bool) (where string, err error) {
	dir := path.Dir(name)
	if where, ok := f.resolved[dir]; ok {
		return where, nil
	}
	where, err = f.resolve(dir, create)
	if err == nil {
		f.resolved[dir] = where
	}
	return where, err
}

// resolve returns where a folder really is: a path without links.
func (f *folder) resolve(dir string, create bool) (string, error) {
	rest := strings.Split(dir, "/")
	where, links := ".", 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			where = path.Dir(where)
			continue
		}
		next := path.Join(where, part)
		target, err := f.step(next, create)
		if err != nil {
			return "", err
		}
		if target == "" {
			where = next
			continue
		}
		if links++; links > maxLinks || len(target) > maxPath {
			return "", &fs.PathError{Op: "follow", Path: dir, Err: syscall.ELOOP}
		}
		if strings.HasPrefix(target, "/") {
			where = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if strings.Count(where, "/") > maxDepth || len(where) > maxPath {
		return "", fmt.Errorf("%.80q…: too deep", dir)
	}
	return where, nil
}

// step looks at one element on the way: a folder, or a link and its target.
func (f *folder) step(where string, create bool) (target string, err error) {
	info, err := f.root.Lstat(where)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		if err := f.root.Mkdir(where, 0o755); err != nil {
			return "", err
		}
		f.made(where)
		return "", nil
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink != 0:
		return f.root.Readlink(where)
	case !info.IsDir():
		return "", &fs.PathError{Op: "open", Path: where, Err: syscall.ENOTDIR}
	}
	return "", nil
}

// maxOpen is how many folders of a tree are kept open.
const maxOpen = 64

// at opens a folder by where it really is.
func (f *folder) at(where string) (*os.Root, error) {
	if where == "." {
		return f.root, nil
	}
	if r := f.open[where]; r != nil {
		return r, nil
	}
	if len(f.open) >= maxOpen {
		f.closeOpen()
	}
	r, err := f.root.OpenRoot(where)
	if err != nil {
		return nil, err
	}
	f.open[where] = r
	return r, nil
}

// put makes a name in a folder by add, in the place of what is there.
func (f *folder) put(where, base string, add func(in *os.Root) error) error {
	in, err := f.at(where)
	if err != nil {
		return err
	}
	if err = add(in); !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err = f.remove(where, base); err != nil {
		return err
	}
	if in, err = f.at(where); err != nil {
		return err
	}
	return add(in)
}

// remove removes a name and what is below it, if there is anything.
func (f *folder) remove(where, base string) error {
	in, err := f.at(where)
	if err != nil {
		return err
	}
	info, err := in.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if info.Mode()&fs.ModeSymlink != 0 {
			clear(f.resolved)
		}
		return in.Remove(base)
	}
	f.forget() // what is open below would keep writing to what is gone
	if in, err = f.at(where); err != nil {
		return err
	}
	return in.RemoveAll(base)
}
