package volume

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountImage mounts the file system in an image, at no place yet: that is for
// who has the descriptor, and when it is closed before, the mount is gone.
func mountImage(image string) (fd int, err error) {
	dev, err := openLoop(image)
	if err != nil {
		return -1, err
	}
	defer dev.Close() // the mount has it open as well
	step("loop")
	fd, err = mountExt4(dev.Name())
	if err != nil {
		return -1, fmt.Errorf("%s cannot be mounted, and is kept: %w", image, err)
	}
	return fd, nil
}

// mountExt4 mounts the file system on a device.
//
//   - noinit_itable: that no thread of the kernel fills the tables of inodes,
//     which would take up the disk for a volume that nobody has written to;
//   - discard: that files removed inside give the disk back to this machine;
//   - errors: that a broken file system is not broken further.
func mountExt4(device string) (fd int, err error) {
	ctx, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen ext4", err)
	}
	defer unix.Close(ctx)
	err = errors.Join(
		unix.FsconfigSetString(ctx, "source", device),
		unix.FsconfigSetFlag(ctx, "noinit_itable"),
		unix.FsconfigSetFlag(ctx, "discard"),
		unix.FsconfigSetString(ctx, "errors", "remount-ro"),
	)
	if err == nil {
		err = unix.FsconfigCreate(ctx)
	}
	if err != nil {
		return -1, fmt.Errorf("ext4: %w%s", err, kernelSaid(ctx))
	}
	fd, err = unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOATIME)
	return fd, os.NewSyscallError("fsmount", err)
}

// maxMessages is how many of the kernel's messages about a mount are told.
const maxMessages = 4

// kernelSaid is what the kernel had to say of a mount that failed: each read
// of the descriptor is one message, with its kind in front.
func kernelSaid(ctx int) string {
	var said strings.Builder
	b := make([]byte, 256)
	for range maxMessages {
		n, err := unix.Read(ctx, b)
		if err != nil || n <= 0 {
			break
		}
		said.WriteString(": " + strings.TrimSpace(strings.TrimPrefix(string(b[:n]), "e ")))
	}
	return said.String()
}
