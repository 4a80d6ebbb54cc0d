package initd

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// A user is whose permissions decide about a file.
type user struct{ uid, gid uint32 }

// do runs f on this thread with the user's permissions; no other thread
// notices. Descriptors that f opens keep their rights.
//
// The effective ids decide about files. The real and saved ones stay root's:
// by them the thread returns, and no process of the user may signal it.
func (u user) do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	u.enter()
	defer u.leave()
	return f()
}

// unchanged leaves an id as it is.
const unchanged = ^uintptr(0)

func (u user) enter() {
	setids(unix.SYS_SETRESGID, uintptr(u.gid))
	setids(unix.SYS_SETRESUID, uintptr(u.uid))
}

func (u user) leave() {
	setids(unix.SYS_SETRESUID, 0)
	setids(unix.SYS_SETRESGID, 0)
}

// setids changes the effective id of this thread alone, for which the wrappers
// in package syscall, which change all threads, do not serve. An init that
// does not know whose permissions it has must not go on.
func setids(call, id uintptr) {
	if _, _, e := syscall.RawSyscall(call, unchanged, id, unchanged); e != 0 {
		fatal("change user", e)
	}
}
