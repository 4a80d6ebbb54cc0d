package initd

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// searchable checks the directory that a command is to start in.
func searchable(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return syscall.ENOTDIR
	}
	return faccess(dir)
}

// find does what execvp does: a name with a slash is a path, any other is
// looked for along PATH.
func find(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(join(dir, name))
	}
	found := error(syscall.ENOENT)
	for _, folder := range strings.Split(lookup(env, "PATH"), ":") {
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
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return syscall.EACCES
	}
	return faccess(path)
}

// faccess asks whether this thread, by its effective ids, may execute path.
func faccess(path string) error {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}

// join is path joining without cleaning: the kernel resolves "..".
func join(dir, name string) string {
	if strings.HasPrefix(name, "/") || dir == "" {
		return name
	}
	return strings.TrimSuffix(dir, "/") + "/" + name
}

// lookup returns the last value of key, as a program would see it.
func lookup(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return ""
}
