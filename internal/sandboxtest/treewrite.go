package sandboxtest

import (
	"io/fs"
	"path"
	"syscall"
	"time"
)

// mask is what new files and directories do not allow others.
const mask = 0o022

func (t *tree) mkdir(name string, perm fs.FileMode, parents bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if parents {
		return t.mkdirAll(name, perm)
	}
	at, err := t.find(name, false)
	if err != nil {
		return err
	}
	if at.node != nil {
		return syscall.EEXIST
	}
	return at.put(newNode(fs.ModeDir | perm&^mask))
}

// mkdirAll makes a directory with its parents.
func (t *tree) mkdirAll(name string, perm fs.FileMode) error {
	at, err := t.find(name, true)
	if err == syscall.ENOENT {
		if err = t.mkdirAll(path.Dir(name), perm); err == nil {
			at, err = t.find(name, true)
		}
	}
	switch {
	case err != nil:
		return err
	case at.node == nil:
		return at.put(newNode(fs.ModeDir | perm&^mask))
	case !at.node.mode.IsDir():
		return syscall.ENOTDIR
	}
	return nil
}

func (t *tree) remove(name string, all bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, err := t.find(name, false)
	if err == nil && at.node == nil {
		err = syscall.ENOENT
	}
	switch {
	case all && err == syscall.ENOENT:
		return nil
	case err != nil:
		return err
	case at.dir == nil:
		return syscall.EBUSY
	case !all && len(at.node.entries) > 0:
		return syscall.ENOTEMPTY
	case at.dir.mode&0o200 == 0:
		return syscall.EACCES
	}
	delete(at.dir.entries, at.name)
	at.dir.mtime = time.Now()
	return nil
}

func (t *tree) symlink(target, name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, err := t.find(name, false)
	if err != nil {
		return err
	}
	if at.node != nil {
		return syscall.EEXIST
	}
	n := newNode(fs.ModeSymlink | 0o777)
	n.target = target
	return at.put(n)
}

// room finds where a file of that name is or would be, and makes the
// directories on the way there. What is there may be written to.
func (t *tree) room(name string) (spot, error) {
	at, err := t.find(name, true)
	if err == syscall.ENOENT {
		if err = t.mkdirAll(path.Dir(name), 0o755); err == nil {
			at, err = t.find(name, true)
		}
	}
	if err != nil {
		return spot{}, err
	}
	return at, at.writable()
}

// writable returns nil if there is a file at the spot, or nothing. Read-only
// ones are the user's own, who may replace them.
func (at spot) writable() error {
	switch n := at.node; {
	case n == nil:
		return nil
	case n.mode.IsDir():
		return syscall.EISDIR
	}
	return nil
}

// makeRoom refuses a file that could not be put there, and makes its parents.
func (t *tree) makeRoom(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, err := t.room(name)
	if err == nil && at.node != nil && !at.node.mode.IsRegular() {
		err = syscall.EINVAL
	}
	return err
}

// replace puts a new file in the place of the one of that name. The mode of
// one that exists is kept.
func (t *tree) replace(name string, data []byte, perm fs.FileMode) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, err := t.room(name)
	if err != nil {
		return err
	}
	n := newNode(perm &^ mask)
	if at.node != nil {
		n.mode = at.node.mode
	}
	n.data = data
	return at.put(n)
}

// create opens a file as a program does: one that exists is emptied.
func (t *tree) create(name string, perm fs.FileMode) (*node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, err := t.find(name, true)
	if err == nil {
		err = at.writable()
	}
	if err != nil {
		return nil, err
	}
	if at.node == nil {
		n := newNode(perm &^ mask)
		return n, at.put(n)
	}
	at.node.data, at.node.mtime = nil, time.Now()
	return at.node, nil
}

// An appender is a file that a program has open.
type appender struct {
	tree *tree
	node *node
}

func (a *appender) Write(p []byte) (int, error) {
	a.tree.mu.Lock()
	defer a.tree.mu.Unlock()
	if a.node.mode.IsRegular() { // a device takes everything
		a.node.data, a.node.mtime = append(a.node.data, p...), time.Now()
	}
	return len(p), nil
}
