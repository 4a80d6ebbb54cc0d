package hostview

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// host is the machine that is looked at. Its root is "/" but in tests.
type host struct {
	root   string
	getenv func(string) string
}

func (h host) path(name string) string { return filepath.Join(h.root, name) }

// isDir reports whether name is itself a directory, not a link to one, that every user may list and enter.
func (h host) isDir(name string) bool {
	info, err := os.Lstat(h.path(name))
	return err == nil && isOpenDir(info)
}

func isOpenDir(info fs.FileInfo) bool { return info.IsDir() && info.Mode()&0o005 == 0o005 }

func isLink(mode fs.FileMode) bool { return mode.Type() == fs.ModeSymlink }

// isProgram reports whether name is itself a compiled program or library that every user may read. Shims
// and wrapper scripts are not: they lead to somebody's home, and may hold more than the name says.
func (h host) isProgram(name string) bool {
	info, err := os.Lstat(h.path(name))
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o004 == 0 {
		return false
	}
	f, err := os.Open(h.path(name))
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "\x7fELF"
}

// exists reports whether name, or what it links to, is there.
func (h host) exists(name string) bool {
	_, err := os.Stat(h.path(name))
	return err == nil
}

// link returns the text of the symlink at name, or "" when it is none.
func (h host) link(name string) string {
	text, err := os.Readlink(h.path(name))
	if err != nil {
		return ""
	}
	return text
}

// resolve follows the symlinks of name.
func (h host) resolve(name string) (string, fs.FileInfo, error) {
	source, err := filepath.EvalSymlinks(h.path(name))
	if err != nil {
		return "", nil, err
	}
	info, err := os.Lstat(source)
	return source, info, err
}

// names returns the names in a directory, none when it cannot be read.
func (h host) names(dir string) []string {
	list, _ := os.ReadDir(h.path(dir)) // an absent folder has nothing to show
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.Name()
	}
	return names
}

// changeTime returns when the file's content or mode last changed, in nanoseconds.
func changeTime(info fs.FileInfo) int64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return st.Ctim.Nano()
}

// owner returns the file's user id, -1 when it is unknown.
func owner(info fs.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}
