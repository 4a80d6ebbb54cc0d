package volume

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The folder of mount points is, while there is something in it, a mount of its
// own and private: otherwise the volumes would be mounted in all the namespaces
// that are peers of this one, and busy there.

// enterPoints makes it so. It is called with s.points held.
func (s *Store) enterPoints() error {
	at := s.path(points)
	mounted, err := s.mounted()
	if err != nil {
		return err
	}
	if !mounted[at] {
		if err := unix.Mount(at, at, "", unix.MS_BIND, ""); err != nil {
			return &os.PathError{Op: "mount", Path: at, Err: err}
		}
		step("points")
	}
	if err := unix.Mount("", at, "", unix.MS_PRIVATE, ""); err != nil {
		return &os.PathError{Op: "make private", Path: at, Err: err}
	}
	return nil
}

// leavePoints makes it a folder again, if there is nothing in it. It is called
// with s.points held.
func (s *Store) leavePoints() error {
	at := s.path(points)
	mounted, err := s.mounted()
	if err != nil || !mounted[at] || len(mounted) > 1 {
		return err
	}
	err = unix.Unmount(at, unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EBUSY) { // which is no harm: it stays
		return nil
	}
	return &os.PathError{Op: "unmount", Path: at, Err: err}
}

// mounted are the mount points in the Store's folder: see proc_pid_mountinfo(5).
func (s *Store) mounted() (map[string]bool, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if at := unescape.Replace(fields[4]); strings.HasPrefix(at, s.dir+"/") {
			found[at] = true
		}
	}
	return found, nil
}

// unescape undoes what the kernel does to a path to keep the lines in order.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
