package initd

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// A user carries out work with the permissions of one uid and gid. A thread
// that has given up its own for good stays locked, so no other goroutine ever
// runs on it.
type user struct {
	uid, gid uint32
	jobs     chan func()
	slots    chan struct{} // one for each thread that may still be made
}

// maxThreads bounds the threads of a user: file work that blocks beyond that
// waits for its turn.
const maxThreads = 16

func newUser(uid, gid uint32) *user {
	u := &user{uid: uid, gid: gid, jobs: make(chan func()), slots: make(chan struct{}, maxThreads)}
	for range maxThreads {
		u.slots <- struct{}{}
	}
	return u
}

// do runs f on a thread of the user and waits for it. File descriptors that f
// opens keep their rights everywhere.
func (u *user) do(f func() error) error {
	var err error
	done := make(chan struct{})
	job := func() {
		defer close(done)
		err = f()
	}
	select {
	case u.jobs <- job:
	default:
		select {
		case u.jobs <- job:
		case <-u.slots:
			go u.work(job)
		}
	}
	<-done
	return err
}

func (u *user) work(job func()) {
	runtime.LockOSThread()
	if err := u.become(); err != nil {
		fatal("become user", err)
	}
	for ; ; job = <-u.jobs {
		job()
	}
}

// become gives this thread, and no other, the user's ids. The effective uid
// alone decides about files, and the saved one must stay: a process whose real
// and saved ids are another user's could be signalled by it.
func (u *user) become() error {
	if _, _, e := syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return e
	}
	keep := ^uintptr(0)
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESGID, uintptr(u.gid), uintptr(u.gid), uintptr(u.gid)); e != 0 {
		return e
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(u.uid), keep); e != 0 {
		return e
	}
	return nil
}

// as returns a user for another uid: the sandbox's own for its own.
func (s *server) as(uid, gid uint32) *user {
	if uid == s.user.uid && gid == s.user.gid {
		return s.user
	}
	return newUser(uid, gid)
}
