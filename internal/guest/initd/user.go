package initd

import (
	"runtime"

	"github.com/hanzoai/sandbox/internal/guest/sys"
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

// An init that does not know whose permissions it has must not go on.

func (u user) enter() {
	if err := sys.SetEffective(u.uid, u.gid); err != nil {
		fatal("become user", err)
	}
}

func (u user) leave() {
	if err := sys.ResetEffective(); err != nil {
		fatal("become root", err)
	}
}
