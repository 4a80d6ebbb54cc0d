// Package hostdir lists directories of a folder that untrusted programs write
// to, from outside of the sandbox: a file takes a microsecond or two so,
// against twenty and more inside.
package hostdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MaxEntries bounds what one directory makes the reader hold.
const MaxEntries = 1 << 20

// ErrLink says that a directory on the way is a symbolic link, which only the
// sandbox knows the meaning of.
var ErrLink = errors.New("a symbolic link on the way")

// Read lists the directory name below root, sorted, each entry as lstat sees
// it: its FileInfo has a method ChangeTime() time.Time. Name is as for package
// io/fs. No link is followed, not even to a place below root, and nothing but
// directories is opened.
func Read(root, name string) ([]fs.DirEntry, error) {
	dir, err := Open(root, name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	list, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// A Dir is an open directory, for reading it in parts.
type Dir struct {
	f    *os.File
	name string
	info entry
}

var _ fs.ReadDirFile = (*Dir)(nil)

// Open opens the directory name below root as Read does.
func Open(root, name string) (*Dir, error) {
	if !fs.ValidPath(name) || strings.ContainsRune(name, 0) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	f, err := open(root, name)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	d := &Dir{f: f, name: name, info: entry{name: path.Base(name)}}
	if err := unix.Fstat(int(f.Fd()), &d.info.st); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return d, nil
}

// Stat implements fs.File.
func (d *Dir) Stat() (fs.FileInfo, error) { return &d.info, nil }

// Close implements fs.File.
func (d *Dir) Close() error { return d.f.Close() }

// Read implements fs.File.
func (d *Dir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: unix.EISDIR}
}

// ReadDir implements fs.ReadDirFile.
func (d *Dir) ReadDir(n int) ([]fs.DirEntry, error) {
	list := []fs.DirEntry{}
	for n <= 0 || len(list) < n {
		want := part
		if n > 0 {
			want = min(part, n-len(list))
		}
		names, err := d.f.Readdirnames(want)
		if errors.Is(err, io.EOF) {
			if n > 0 && len(list) == 0 {
				return nil, io.EOF
			}
			break
		}
		if err != nil {
			return list, &fs.PathError{Op: "readdir", Path: d.name, Err: err}
		}
		if len(list)+len(names) > MaxEntries {
			return list, &fs.PathError{Op: "readdir", Path: d.name, Err: fmt.Errorf("more than %d entries", MaxEntries)}
		}
		list = d.look(list, names)
	}
	return list, nil
}

// part is how many names are read at a time.
const part = 1024

// look appends what lstat sees of names. What is gone by now is left out.
func (d *Dir) look(list []fs.DirEntry, names []string) []fs.DirEntry {
	for _, name := range names {
		e := entry{name: name}
		if unix.Fstatat(int(d.f.Fd()), name, &e.st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			list = append(list, &e)
		}
	}
	return list
}

const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// open goes down one directory at a time: O_NOFOLLOW is about the last name of
// a path alone.
func open(root, name string) (*os.File, error) {
	fd, err := unix.Open(root, openFlags, 0)
	if err != nil {
		return nil, err
	}
	for word := range strings.SplitSeq(name, "/") {
		if word == "." {
			continue
		}
		next, err := openAt(fd, word)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		fd = next
	}
	return os.NewFile(uintptr(fd), path.Join(root, name)), nil
}

func openAt(dir int, name string) (int, error) {
	fd, err := unix.Openat(dir, name, openFlags, 0)
	if err != unix.ENOTDIR && err != unix.ELOOP {
		return fd, err
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return -1, ErrLink
	}
	return -1, unix.ENOTDIR
}

// An entry is what a listing says of a file: both fs.DirEntry and fs.FileInfo.
type entry struct {
	name string
	st   unix.Stat_t
}

func (e *entry) Name() string               { return e.name }
func (e *entry) Size() int64                { return e.st.Size }
func (e *entry) ModTime() time.Time         { return time.Unix(e.st.Mtim.Unix()) }
func (e *entry) ChangeTime() time.Time      { return time.Unix(e.st.Ctim.Unix()) }
func (e *entry) Type() fs.FileMode          { return e.Mode().Type() }
func (e *entry) IsDir() bool                { return e.st.Mode&unix.S_IFMT == unix.S_IFDIR }
func (e *entry) Sys() any                   { return nil }
func (e *entry) Info() (fs.FileInfo, error) { return e, nil }
func (e *entry) String() string             { return fs.FormatFileInfo(e) }

func (e *entry) Mode() fs.FileMode {
	mode := fs.FileMode(e.st.Mode & 0o777)
	for _, bit := range []struct {
		in  uint32
		out fs.FileMode
	}{
		{unix.S_ISUID, fs.ModeSetuid}, {unix.S_ISGID, fs.ModeSetgid}, {unix.S_ISVTX, fs.ModeSticky},
	} {
		if e.st.Mode&bit.in != 0 {
			mode |= bit.out
		}
	}
	switch e.st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return mode | fs.ModeDir
	case unix.S_IFLNK:
		return mode | fs.ModeSymlink
	case unix.S_IFIFO:
		return mode | fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return mode | fs.ModeSocket
	case unix.S_IFCHR:
		return mode | fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		return mode | fs.ModeDevice
	}
	return mode
}
