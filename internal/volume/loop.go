package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// openLoop returns the loop device of an image. One that the image has already
// is used again, for two would be two caches of one file, which would ruin it:
// a mount of it can live on in another mount namespace, or be busy after a lazy
// unmount. A new one goes when its last user does.
func openLoop(image string) (*os.File, error) {
	f, err := os.OpenFile(image, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		dev, err := findLoop(f)
		if dev != nil || err != nil {
			return dev, err
		}
		dev, err = newLoop(f)
		if !errors.Is(err, unix.EBUSY) { // somebody else got it first
			return dev, err
		}
	}
}

func newLoop(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("no loop device: %w", err)
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, fmt.Errorf("no loop device: %w", err)
	}
	dev, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("no loop device: %w", err)
	}
	config := unix.LoopConfig{Fd: uint32(image.Fd()), Size: blockSize, Info: unix.LoopInfo64{Flags: loopFlags}}
	if err := unix.IoctlLoopConfigure(int(dev.Fd()), &config); err != nil {
		dev.Close()
		return nil, fmt.Errorf("%s: %w", dev.Name(), err)
	}
	return dev, nil
}

// loopFlags: the device goes with its last user, and what is in the cache of
// the file system above it is not in that of the one below as well, if that one
// knows how to.
const loopFlags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO

// findLoop returns the loop device that an image has, or nil.
func findLoop(image *os.File) (*os.File, error) {
	names, err := filepath.Glob(backingFiles)
	if err != nil {
		return nil, err
	}
	// The beginning of the path may be another in the mount namespace of who
	// made the device.
	end := filepath.Join("/", filepath.Base(filepath.Dir(image.Name())), filepath.Base(image.Name()))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(b)), end) {
			continue // of another, or gone since
		}
		dev, err := os.OpenFile(loopDevice(name), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if isLoopOf(dev, image) {
			return dev, nil
		}
		dev.Close()
	}
	return nil, nil
}

func isLoopOf(dev, image *os.File) bool {
	var stat unix.Stat_t
	info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
	if err != nil || unix.Fstat(int(image.Fd()), &stat) != nil {
		return false
	}
	return info.Device == stat.Dev && info.Inode == stat.Ino
}

// freeLoops gives back the loop devices of files in a folder, at once or when
// their last users are gone, but for those that somebody keeps.
func freeLoops(folder string, keep func(path string) bool) error {
	names, err := filepath.Glob(backingFiles)
	errs := []error{err}
	for _, name := range names {
		b, err := os.ReadFile(name)
		path := strings.TrimSpace(string(b))
		if err != nil || !strings.HasPrefix(path, folder+"/") || keep(path) {
			continue
		}
		dev, err := os.OpenFile(loopDevice(name), os.O_RDWR, 0)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
			errs = append(errs, fmt.Errorf("%s: %w", dev.Name(), err))
		}
		dev.Close()
	}
	return errors.Join(errs...)
}

// backingFiles are the files that tell which file a loop device has.
const backingFiles = "/sys/block/loop*/loop/backing_file"

func loopDevice(backingFile string) string {
	return filepath.Join("/dev", filepath.Base(filepath.Dir(filepath.Dir(backingFile))))
}
