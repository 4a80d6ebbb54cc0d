package initd

import (
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/sys"
)

// searchable checks the directory that a command is to start in.
func searchable(dir string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return syscall.ENOTDIR
	}
	return sys.Executable(dir)
}

// find does what execvp does: a name with a slash is a path, any other is
// looked for along PATH.
func find(name, dir string, env []string) (string, error) {
	if _, _, found := cut(name, '/'); found {
		return name, executable(join(dir, name))
	}
	found := error(syscall.ENOENT)
	if name == "" {
		return "", found
	}
	folders := lookup(env, "PATH")
	if folders == "" {
		folders = "/bin:/usr/bin"
	}
	for more := true; more; {
		var folder string
		folder, folders, more = cut(folders, ':')
		path := join(join(dir, folder), name)
		switch err := executable(path); err {
		case nil:
			return path, nil
		case syscall.EACCES:
			found = err
		}
	}
	return "", found
}

func executable(path string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return syscall.EACCES
	}
	return sys.Executable(path)
}

// lookup returns the last value of key, as a program would see it.
func lookup(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, ok := cut(env[i], '='); ok && k == key {
			return v
		}
	}
	return ""
}
