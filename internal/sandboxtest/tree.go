package sandboxtest

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A tree is the files of a box. Paths are absolute, errors are of package
// syscall. Everything belongs to one user.
type tree struct {
	mu   *sync.Mutex // the disk's: who has it open knows one lock for all
	root *node
}

// A disk is a working directory. It outlives the trees that it is in, one
// after the other.
type disk struct {
	mu  sync.Mutex
	dir *node
}

func newDisk() *disk { return &disk{dir: newNode(fs.ModeDir | 0o755)} }

// A node is a file, a directory, a symbolic link, or a device that is empty
// and takes everything.
type node struct {
	mode    fs.FileMode
	mtime   time.Time
	data    []byte // of a file: appended to or replaced, never changed
	target  string // of a link
	entries map[string]*node
}

const homeDir = "/home/sandbox"

// newTree returns the tree of a new box, which has a disk as its workdir.
func newTree(workdir string, d *disk) *tree {
	t := &tree{mu: &d.mu, root: newNode(fs.ModeDir | 0o755)}
	for _, dir := range []string{path.Dir(workdir), homeDir, "/tmp", "/dev"} {
		if err := t.mkdirAll(dir, 0o755); err != nil {
			panic(err)
		}
	}
	parent, _ := t.find(path.Dir(workdir), true)
	parent.node.entries[path.Base(workdir)] = d.dir
	dev, _ := t.find("/dev", true)
	dev.node.entries["null"] = newNode(fs.ModeDevice | fs.ModeCharDevice | 0o666)
	for _, dir := range []string{"/", path.Dir(workdir), "/home", "/dev"} {
		at, _ := t.find(dir, true)
		at.node.mode &^= 0o222 // they are the system's
	}
	return t
}

func newNode(mode fs.FileMode) *node {
	n := &node{mode: mode, mtime: time.Now()}
	if mode.IsDir() {
		n.entries = map[string]*node{}
	}
	return n
}

// A spot is a place in a tree: an entry of a directory, or room for one.
type spot struct {
	dir  *node // nil for the root, and for a path that ends in ".."
	name string
	node *node // nil if there is none
}

// maxLinks is how many links a path may lead through, as on Linux.
const maxLinks = 40

// find follows a path, at its end only if follow says so. That only the last
// element is missing is no error.
func (t *tree) find(name string, follow bool) (spot, error) {
	at := []*node{t.root}
	rest := strings.Split(name, "/")
	links := 0
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		dir := at[len(at)-1]
		switch {
		case !dir.mode.IsDir():
			return spot{}, syscall.ENOTDIR
		case word == "" || word == ".":
			continue
		case word == "..":
			at = at[:max(1, len(at)-1)]
			continue
		case len(word) > maxName:
			return spot{}, syscall.ENAMETOOLONG
		}
		n := dir.entries[word]
		last := len(rest) == 0
		switch {
		case n == nil && !last:
			return spot{}, syscall.ENOENT
		case n != nil && n.mode.Type() == fs.ModeSymlink && (follow || !last):
			if links++; links > maxLinks {
				return spot{}, syscall.ELOOP
			}
			if path.IsAbs(n.target) {
				at = at[:1]
			}
			rest = slices.Concat(strings.Split(n.target, "/"), rest)
		case last:
			return spot{dir, word, n}, nil
		default:
			at = append(at, n)
		}
	}
	return spot{node: at[len(at)-1]}, nil
}

// maxName is the longest name of a file.
const maxName = 255

// existing is find for what must be there.
func (t *tree) existing(name string, follow bool) (*node, error) {
	at, err := t.find(name, follow)
	if err == nil && at.node == nil {
		err = syscall.ENOENT
	}
	return at.node, err
}

// put makes n the entry at a spot.
func (at spot) put(n *node) error {
	if at.dir == nil {
		return syscall.EEXIST
	}
	if at.dir.mode&0o200 == 0 {
		return syscall.EACCES
	}
	at.dir.entries[at.name] = n
	at.dir.mtime = time.Now()
	return nil
}

// info describes a node under the name by which it was found.
type info struct {
	name  string
	size  int64
	mode  fs.FileMode
	mtime time.Time
}

func (n *node) info(name string) info {
	size := len(n.data)
	switch n.mode.Type() {
	case fs.ModeDir:
		size = len(n.entries)
	case fs.ModeSymlink:
		size = len(n.target)
	}
	return info{path.Base(name), int64(size), n.mode, n.mtime}
}

// info is both fs.FileInfo and fs.DirEntry.
func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return i.size }
func (i info) Mode() fs.FileMode          { return i.mode }
func (i info) Type() fs.FileMode          { return i.mode.Type() }
func (i info) ModTime() time.Time         { return i.mtime }
func (i info) IsDir() bool                { return i.mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Info() (fs.FileInfo, error) { return i, nil }
func (i info) String() string             { return fs.FormatFileInfo(i) }

func (t *tree) stat(name string, follow bool) (fs.FileInfo, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.existing(name, follow)
	if err != nil {
		return nil, err
	}
	return n.info(name), nil
}

func (t *tree) readlink(name string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.existing(name, false)
	if err == nil && n.mode.Type() != fs.ModeSymlink {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", err
	}
	return n.target, nil
}

// list returns the entries of a directory, sorted.
func (t *tree) list(name string) ([]fs.DirEntry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.existing(name, true)
	if err == nil && !n.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, err
	}
	list := []fs.DirEntry{}
	for _, entry := range slices.Sorted(maps.Keys(n.entries)) {
		list = append(list, n.entries[entry].info(entry))
	}
	return list, nil
}

// open returns what a file has and is, as of now, or what a directory is.
func (t *tree) open(name string) (info, []byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.existing(name, true)
	if err == nil && n.mode&0o400 == 0 {
		err = syscall.EACCES
	}
	if err != nil {
		return info{}, nil, err
	}
	return n.info(name), n.data, nil
}

// read returns the content of a file, for a program.
func (t *tree) read(name string) ([]byte, error) {
	i, data, err := t.open(name)
	if err == nil && i.IsDir() {
		err = syscall.EISDIR
	}
	return data, err
}
