package volume

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copySparse copies a file with its holes, by reference if the file system
// knows how to.
func copySparse(to, from *os.File) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return nil
	}
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if err := to.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); ; {
		start, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole is left
			return nil
		}
		if err != nil {
			return os.NewSyscallError("seek", err)
		}
		if at, err = unix.Seek(int(from.Fd()), start, unix.SEEK_HOLE); err != nil {
			return os.NewSyscallError("seek", err)
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(from, start, at-start)); err != nil {
			return err
		}
	}
}
