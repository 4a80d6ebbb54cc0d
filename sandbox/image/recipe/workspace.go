package recipe

import (
	"bufio"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	workspacePrefix = "sandbox-recipe-"
	justMade        = time.Minute // and perhaps not locked yet
)

// workspace makes a temporary folder, in which a file system of some GB has
// room: /tmp may be memory. Folders of builds that were killed go.
func workspace() (dir string, remove func() error, err error) {
	parent := cmp.Or(os.Getenv("TMPDIR"), "/var/tmp")
	sweep(parent)
	dir, err = os.MkdirTemp(parent, workspacePrefix)
	if err != nil {
		return "", nil, err
	}
	held, err := os.Open(dir)
	if err == nil {
		// In a user namespace others than this user read it.
		err = errors.Join(unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB), held.Chmod(0o755))
	}
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(dir))
	}
	return dir, func() error { return errors.Join(clear(dir), held.Close()) }, nil
}

// sweep removes what builds have left that did not live to do so. Nobody else
// could have made a folder that is this user's.
func sweep(parent string) {
	left, err := filepath.Glob(filepath.Join(parent, workspacePrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() || time.Since(info.ModTime()) < justMade {
			continue
		}
		held, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = clear(dir) // of another build, which is no reason for this one to fail
		}
		held.Close()
	}
}

// clear removes a workspace, unless something is mounted in it.
func clear(dir string) error {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return err
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			return &os.PathError{Op: "remove", Path: dir, Err: errors.New("something is mounted on " + f[1])}
		}
	}
	return os.RemoveAll(dir)
}
