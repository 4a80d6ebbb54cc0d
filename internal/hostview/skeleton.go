package hostview

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// write makes the skeleton in dir, an empty directory that nobody else knows of.
func (p *plan) write(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var etc *os.Root // opened when there is something to copy, for a host may have no /etc
	for _, e := range p.sorted() {
		if e.from != "" && etc == nil {
			if etc, err = os.OpenRoot(p.etc); err != nil {
				return err
			}
			defer etc.Close()
		}
		if err := e.write(root, etc); err != nil {
			return err
		}
	}
	return settle(root, ".", fs.ModeDir|0o755)
}

func (e entry) write(root, etc *os.Root) error {
	var err error
	switch e.mode.Type() {
	case fs.ModeDir:
		err = root.Mkdir(e.name, 0o700)
	case fs.ModeSymlink:
		err = e.writeLink(root, etc)
	default:
		err = e.writeFile(root, etc)
	}
	if err != nil {
		return err
	}
	return settle(root, e.name, e.mode)
}

func (e entry) writeLink(root, etc *os.Root) error {
	text := e.text
	if e.from != "" {
		var err error
		if text, err = etc.Readlink(e.from); err != nil {
			return orChanged(err)
		}
	}
	return root.Symlink(text, e.name) // whatever it says: it resolves inside the guest
}

func (e entry) writeFile(root, etc *os.Root) error {
	f, err := root.OpenFile(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if e.from != "" {
		err = e.copyTo(f, etc)
	} else {
		_, err = io.WriteString(f, e.text)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// settle gives a file its mode, whatever the umask, and its owner, whatever a setgid parent says.
func settle(root *os.Root, name string, mode fs.FileMode) error {
	if os.Geteuid() == 0 {
		if err := root.Lchown(name, 0, 0); err != nil {
			return err
		}
	}
	if isLink(mode) {
		return nil
	}
	return root.Chmod(name, mode&(fs.ModePerm|fs.ModeSticky))
}

// check reports how the skeleton in dir differs from the plan: a crash of the machine can leave a file
// shorter than it was written. Files beside the plan are left to the runtime that put them there.
func (p *plan) check(dir string) error {
	if err := (entry{mode: fs.ModeDir | 0o755}).check(dir); err != nil {
		return err
	}
	links := linkLists{}
	for _, e := range p.entries {
		name := filepath.Join(dir, e.name)
		if isLink(e.mode) {
			if !links.has(name) {
				return fmt.Errorf("%s: is no link", name)
			}
			continue
		}
		if err := e.check(name); err != nil {
			return err
		}
	}
	return nil
}

// linkLists holds the names of the links in each directory. Links are many and in few directories, and a
// look at each would be half the cost of a Build that finds nothing to do.
type linkLists map[string]map[string]bool

func (l linkLists) has(name string) bool {
	dir, base := filepath.Split(name)
	if l[dir] == nil {
		l[dir] = map[string]bool{}
		list, _ := os.ReadDir(dir) // without it, no link is found
		for _, d := range list {
			l[dir][d.Name()] = isLink(d.Type())
		}
	}
	return l[dir][base]
}

func (e entry) check(name string) error {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.Mode().Type() != e.mode.Type():
		return fmt.Errorf("%s: is %v, not %v", name, info.Mode(), e.mode)
	case e.bind:
		return nil // it may be the host's own that is seen here, mounted
	case owner(info) != os.Geteuid():
		return fmt.Errorf("%s: belongs to user %d", name, owner(info))
	case info.Mode() != e.mode:
		return fmt.Errorf("%s: is %v, not %v", name, info.Mode(), e.mode)
	case e.mode.IsRegular() && info.Size() != e.size():
		return fmt.Errorf("%s: has %d bytes, not %d", name, info.Size(), e.size())
	}
	return nil
}
