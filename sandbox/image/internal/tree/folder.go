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
	resolved map[string]string        // parents as named, and where they really are
	open     map[string]*os.Root      // folders by where they really are
	made     func(where string) error // told of each folder that is made on the way
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{root: root, resolved: map[string]string{}, open: map[string]*os.Root{}, made: func(string) error { return nil }}, nil
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
	return f.resolve(path.Dir(name), create)
}

// resolve returns where a folder really is: a path without links.
func (f *folder) resolve(dir string, create bool) (string, error) {
	links := 0
	return f.find(dir, create, &links)
}

// maxResolved is how many answers are kept.
const maxResolved = 8192

func (f *folder) find(dir string, create bool, links *int) (string, error) {
	if dir == "." || dir == "/" {
		return ".", nil
	}
	if where, ok := f.resolved[dir]; ok {
		return where, nil
	}
	up, err := f.find(path.Dir(dir), create, links)
	if err != nil {
		return "", err
	}
	where, err := f.into(up, path.Base(dir), create, links)
	if err != nil {
		return "", err
	}
	if len(f.resolved) >= maxResolved {
		clear(f.resolved)
	}
	f.resolved[dir] = where
	return where, nil
}

// into goes from a folder into one in it, or to where a link leads.
func (f *folder) into(up, base string, create bool, links *int) (string, error) {
	where := path.Join(up, base)
	if strings.Count(where, "/") >= maxDepth || len(where) > maxPath {
		return "", fmt.Errorf("%.80q…: too deep", where)
	}
	in, err := f.at(up)
	if err != nil {
		return "", err
	}
	info, err := in.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		if err := in.Mkdir(base, 0o755); err != nil {
			return "", err
		}
		return where, f.made(where)
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := in.Readlink(base)
		if err != nil {
			return "", err
		}
		return f.follow(up, target, create, links)
	case !info.IsDir():
		return "", &fs.PathError{Op: "open", Path: where, Err: syscall.ENOTDIR}
	}
	return where, nil
}

// follow goes from a folder to where a link in it leads.
func (f *folder) follow(up, target string, create bool, links *int) (where string, err error) {
	if *links++; *links > maxLinks {
		return "", &fs.PathError{Op: "follow", Path: up, Err: syscall.ELOOP}
	}
	where = up
	if strings.HasPrefix(target, "/") {
		where = "."
	}
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			where = path.Dir(where)
		default:
			if where, err = f.into(where, part, create, links); err != nil {
				return "", err
			}
		}
	}
	return where, nil
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
