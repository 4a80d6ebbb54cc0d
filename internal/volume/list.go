package volume

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Info describes a volume.
type Info struct {
	Name     string
	Size     int64     // in bytes; 0 is that of a plain folder, which has no bound
	Used     int64     // bytes of this machine's disk; -1 is that of a plain folder, which is not counted
	Mounted  bool      // a plain folder never is
	LastUsed time.Time // when it was mounted or unmounted last
}

// List lists the volumes by name.
func (s *Store) List() ([]Info, error) {
	mounted, err := s.mounted()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.path(volumes))
	if err != nil {
		return nil, err
	}
	list := make([]Info, 0, len(entries))
	for _, e := range entries {
		info, err := s.info(e.Name())
		if errors.Is(err, fs.ErrNotExist) { // removed since
			continue
		}
		if err != nil {
			return nil, err
		}
		info.Mounted = mounted[s.path(points, e.Name())]
		list = append(list, info)
	}
	return list, nil
}

func (s *Store) info(name string) (Info, error) {
	dir, err := os.Lstat(s.path(volumes, name))
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: name, LastUsed: dir.ModTime(), Used: -1}
	if s.plain(name) {
		return info, nil
	}
	var stat unix.Stat_t
	if err := unix.Lstat(s.path(volumes, name, imageName), &stat); err != nil {
		return Info{}, &os.PathError{Op: "stat", Path: s.path(volumes, name, imageName), Err: err}
	}
	info.Size, info.Used = stat.Size, stat.Blocks*512
	return info, nil
}
