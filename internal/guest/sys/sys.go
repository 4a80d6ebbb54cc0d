// Package sys has the system calls that the init needs and package syscall
// lacks. It stands in for golang.org/x/sys/unix, which Go initialises only
// after some forty packages of the program that carries the init: see
// package guest.
package sys

import (
	"syscall"
	"unsafe"
)

// Values that package syscall does not have, for Linux on all architectures.
const (
	POLLIN  = 0x1
	POLLPRI = 0x2
	POLLOUT = 0x4
	POLLERR = 0x8
	POLLHUP = 0x10

	atFDCWD           = -0x64
	atSymlinkNofollow = 0x100
	atEaccess         = 0x200
	accessX           = 0x1
	accessW           = 0x2
	sysFaccessat2     = 439

	tiocgptn   = 0x80045430
	tiocsptlck = 0x40045431
)

func fail(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// A PollFd is one descriptor for Poll; a negative one is passed over.
type PollFd struct {
	Fd      int32
	Events  int16
	Revents int16
}

// Poll waits for an event for up to timeout milliseconds, or for ever if that
// is negative.
func Poll(fds []PollFd, timeout int) (n int, err error) {
	var ts *syscall.Timespec
	if timeout >= 0 {
		t := syscall.NsecToTimespec(int64(timeout) * 1e6)
		ts = &t
	}
	r, _, e := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(unsafe.Pointer(ts)), 0, 0, 0)
	return int(r), fail(e)
}

// Dup duplicates a descriptor, above the standard ones and close-on-exec.
func Dup(fd int) (int, error) {
	r, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 3)
	if e != 0 {
		return -1, e
	}
	return int(r), nil
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return fail(e)
}

// Available returns how many bytes can be read from a pipe or terminal now.
func Available(fd int) (int, error) {
	var n int32
	err := ioctl(fd, syscall.TIOCINQ, unsafe.Pointer(&n))
	return int(n), err
}

// OpenSlave unlocks the other end of a terminal's master and returns its
// number in /dev/pts.
func OpenSlave(master int) (int, error) {
	var lock, n int32
	if err := ioctl(master, tiocsptlck, unsafe.Pointer(&lock)); err != nil {
		return 0, err
	}
	err := ioctl(master, tiocgptn, unsafe.Pointer(&n))
	return int(n), err
}

// SetSize sets a terminal's size.
func SetSize(fd int, rows, cols uint16) error {
	size := [4]uint16{rows, cols}
	return ioctl(fd, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

// Foreground returns a terminal's foreground process group.
func Foreground(fd int) (int, error) {
	var pgrp int32
	err := ioctl(fd, syscall.TIOCGPGRP, unsafe.Pointer(&pgrp))
	return int(pgrp), err
}

// Executable returns nil if this thread, by its effective ids, may execute a
// file or search a directory.
func Executable(path string) error { return access(path, accessX) }

// Writable returns nil if this thread, by its effective ids, may write a file.
func Writable(path string) error { return access(path, accessW) }

func access(path string, mode uintptr) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	dir := atFDCWD
	_, _, e := syscall.Syscall6(sysFaccessat2, uintptr(dir), uintptr(unsafe.Pointer(p)), mode, atEaccess, 0, 0)
	return fail(e)
}

// LstatAt is lstat of a name in an open directory.
func LstatAt(dir int, name string, st *syscall.Stat_t) error {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, e := syscall.Syscall6(sysFstatat, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(st)), atSymlinkNofollow, 0, 0)
	return fail(e)
}

// maxCPUs is how many processors a mask has room for.
const maxCPUs = 1024

// SetAffinity allows this thread, and what it starts from now on, the first n
// processors. Those that there are not count for nothing.
func SetAffinity(n int) error {
	var mask [maxCPUs / 64]uint64
	for i := range min(n, maxCPUs) {
		mask[i/64] |= 1 << (i % 64)
	}
	_, _, e := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	return fail(e)
}

// SetLimit sets a resource limit of this process, soft and hard.
func SetLimit(resource int, value uint64) error {
	limit := [2]uint64{value, value}
	_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, uintptr(resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	return fail(e)
}

// Exec becomes another program. It allocates nothing.
func Exec(path *byte, argv, env []*byte) error {
	_, _, e := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(unsafe.SliceData(argv))), uintptr(unsafe.Pointer(unsafe.SliceData(env))))
	return e
}

// SetEffective sets the effective group and then user of this thread alone;
// the wrappers in package syscall change all threads. The real and saved ids
// stay.
func SetEffective(uid, gid uint32) error {
	if err := setEffective(syscall.SYS_SETRESGID, gid); err != nil {
		return err
	}
	return setEffective(syscall.SYS_SETRESUID, uid)
}

// ResetEffective takes a thread back to root: the user first, by which it may
// do the rest.
func ResetEffective() error {
	if err := setEffective(syscall.SYS_SETRESUID, 0); err != nil {
		return err
	}
	return setEffective(syscall.SYS_SETRESGID, 0)
}

func setEffective(call uintptr, id uint32) error {
	unchanged := ^uintptr(0)
	_, _, e := syscall.RawSyscall(call, unchanged, uintptr(id), unchanged)
	return fail(e)
}
