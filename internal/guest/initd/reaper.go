package initd

import (
	"sync"
	"syscall"
	"time"
)

// A reaper takes what has ended: the commands, each waited for by its own
// thread, and what commands left behind, which becomes a child of process 1.
type reaper struct {
	reaped func() // called after orphans may have been taken

	mu       sync.Mutex
	commands map[int]*syscall.WaitStatus // those not yet taken by their threads; the value once they are reaped
	awake    bool                        // the patrol runs
}

// patrolInterval is how long an orphan that has ended may stay in the process
// table. A thread that waits for them instead would be woken for every
// command's end too, which costs more than the look.
const patrolInterval = 250 * time.Millisecond

func newReaper(reaped func()) *reaper {
	return &reaper{reaped: reaped, commands: map[int]*syscall.WaitStatus{}}
}

// start calls fork for a command and enters its child.
func (r *reaper) start(fork func() (int, error)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, err
	}
	r.commands[pid] = nil
	return pid, nil
}

// wait takes a command that has ended, and reports whether it has.
func (r *reaper) wait(pid int) (syscall.WaitStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ws := r.commands[pid]; ws != nil {
		delete(r.commands, pid)
		return *ws, true
	}
	var ws syscall.WaitStatus
	got, _ := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil)
	if got != pid {
		return 0, false
	}
	delete(r.commands, pid)
	return ws, true
}

// signal sends sig to the process group of a command that has not been
// reaped: its pid cannot have become another's.
func (r *reaper) signal(pid int, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ws, ok := r.commands[pid]; ok && ws == nil {
		syscall.Kill(-pid, sig)
	}
}

// patrol reaps orphans from now on, until there is neither a command nor
// anything that one has left behind.
func (r *reaper) patrol(busy func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.awake {
		return
	}
	r.awake = true
	time.AfterFunc(patrolInterval, func() { r.round(busy) })
}

func (r *reaper) round(busy func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			break
		}
		if _, ok := r.commands[pid]; ok {
			r.commands[pid] = &ws
		}
	}
	r.reaped()
	if r.awake = len(r.commands) > 0 || busy(); r.awake {
		time.AfterFunc(patrolInterval, func() { r.round(busy) })
	}
}
