package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Lay lays a layer, unpacked into the folder from, over the tree in dir. Files
// are not copied: both trees have the same ones, so neither may be written to.
func Lay(dir, from string, l *Layer) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer f.close()
	top, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer top.Close()
	if err := f.hide(l); err != nil {
		return err
	}
	m := &merger{folder: f, top: top, implicit: map[string]bool{}}
	for _, where := range l.Implicit {
		m.implicit[string(where)] = true
	}
	if err := m.merge(".", ".", false); err != nil {
		return err
	}
	return m.links(l.Links)
}

// hide removes what the layer says is not there.
func (f *folder) hide(l *Layer) error {
	for _, name := range l.Whiteouts {
		where, err := f.parent(string(name), false)
		if nothing(err) {
			continue
		}
		if err == nil {
			err = f.remove(where, path.Base(string(name)))
		}
		if err != nil {
			return err
		}
	}
	for _, name := range l.Opaque {
		if err := f.empty(string(name)); err != nil {
			return err
		}
	}
	return nil
}

// nothing reports whether there is no such folder.
func nothing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func (f *folder) empty(dir string) error {
	where, err := f.resolve(dir, false)
	if nothing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	in, err := f.at(where)
	if err != nil {
		return err
	}
	names, err := list(in)
	if err != nil {
		return err
	}
	for _, e := range names {
		if err := f.remove(where, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// list returns what is in a folder.
func list(in *os.Root) ([]fs.DirEntry, error) {
	d, err := in.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.ReadDir(-1)
}

type merger struct {
	*folder
	top      *os.Root        // of the layer
	implicit map[string]bool // its folders that say nothing of themselves
}

// merge lays the layer's folder src over the tree's folder dst, which is new,
// and so empty, or has something in it.
func (m *merger) merge(src, dst string, isNew bool) error {
	from, err := m.top.Open(src)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := m.root.Open(dst)
	if err != nil {
		return err
	}
	defer to.Close()
	for {
		entries, err := from.ReadDir(512)
		for _, e := range entries {
			if e.IsDir() {
				err = m.dir(path.Join(src, e.Name()), path.Join(dst, e.Name()), isNew)
			} else {
				err = m.entry(from, to, dst, e.Name())
			}
			if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if m.implicit[src] && !isNew {
		return nil
	}
	return copyMeta(to, from)
}

func (m *merger) dir(src, dst string, isNew bool) error {
	if !isNew {
		var err error
		if dst, isNew, err = m.over(src, dst); err != nil {
			return err
		}
	}
	if isNew {
		if err := m.root.Mkdir(dst, 0o700); err != nil {
			return err
		}
	}
	return m.merge(src, dst, isNew)
}

// over returns the folder that one of the layer's lies over, which is where a
// link leads if the layer merely has something below it.
func (m *merger) over(src, dst string) (where string, isNew bool, err error) {
	info, err := m.root.Lstat(dst)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dst, true, nil
	case err != nil:
		return "", false, err
	case info.IsDir():
		return dst, false, nil
	}
	if info.Mode()&fs.ModeSymlink != 0 && m.implicit[src] {
		where, err := m.resolve(dst, false)
		if err == nil {
			return where, false, nil
		}
		if !nothing(err) && !errors.Is(err, syscall.ELOOP) {
			return "", false, err
		}
	}
	return dst, true, m.remove(path.Dir(dst), path.Base(dst))
}

// entry links a file, or whatever else is no folder.
func (m *merger) entry(from, to *os.File, dst, name string) error {
	link := func() error { return unix.Linkat(int(from.Fd()), name, int(to.Fd()), name, 0) }
	err := link()
	if errors.Is(err, unix.EEXIST) {
		if err = m.remove(dst, name); err == nil {
			err = link()
		}
	}
	if errors.Is(err, unix.EMLINK) {
		return m.copyFile(from, to, name)
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: path.Join(from.Name(), name), New: path.Join(to.Name(), name), Err: err}
	}
	return nil
}

// copyFile copies a file that has as many names as a file can have.
func (m *merger) copyFile(from, to *os.File, name string) error {
	fd, err := unix.Openat(int(from.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	in := os.NewFile(uintptr(fd), name)
	defer in.Close()
	fd, err = unix.Openat(int(to.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: name, Err: err}
	}
	out := os.NewFile(uintptr(fd), name)
	_, err = io.Copy(out, in)
	return errors.Join(err, copyMeta(out, in), out.Close())
}

// copyMeta gives one file or folder the owner, mode and time of another.
func copyMeta(to, from *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &st); err != nil {
		return err
	}
	fd := int(to.Fd())
	times := []unix.Timeval{unix.NsecToTimeval(time.Now().UnixNano()), unix.NsecToTimeval(st.Mtim.Nano())}
	return errors.Join(
		unix.Fchown(fd, int(st.Uid), int(st.Gid)),
		unix.Fchmod(fd, st.Mode&0o1777),
		unix.Futimes(fd, times),
	)
}

// links makes the layer's hard links to files of the layers below.
func (m *merger) links(links [][2][]byte) error {
	m.forget()
	for _, l := range links {
		name, target := string(l[0]), string(l[1])
		dir, err := m.parent(target, false)
		if err != nil {
			return fmt.Errorf("layer: %s: a hard link: %w", shown(name), err)
		}
		where, err := m.parent(name, true)
		if err != nil {
			return err
		}
		from, to := path.Join(dir, path.Base(target)), path.Join(where, path.Base(name))
		info, err := m.root.Lstat(from)
		if err == nil && info.IsDir() {
			err = errors.New("is a folder")
		}
		if err == nil && from != to {
			err = m.put(where, path.Base(name), func(*os.Root) error { return m.root.Link(from, to) })
		}
		if err != nil {
			return fmt.Errorf("layer: %s: a hard link to %s: %w", shown(name), shown(target), err)
		}
	}
	return nil
}

// Places makes the folders that something is going to be mounted on, where
// they are missing. What is in the way goes.
func Places(dir string, names ...string) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer f.close()
	for _, name := range names {
		if err := f.place(strings.TrimPrefix(name, "/")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// place makes one folder, and every one on the way to it a real one: what is
// mounted must not follow an image's links.
func (f *folder) place(name string) error {
	where := "."
	for part := range strings.SplitSeq(name, "/") {
		info, err := f.root.Lstat(path.Join(where, part))
		if err != nil || !info.IsDir() {
			err = f.put(where, part, func(in *os.Root) error { return in.Mkdir(part, 0o755) })
			if err == nil {
				err = f.root.Chmod(path.Join(where, part), 0o755)
			}
		}
		if err != nil {
			return err
		}
		where = path.Join(where, part)
	}
	return nil
}
