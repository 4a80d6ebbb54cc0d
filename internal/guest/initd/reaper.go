package initd

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A reaper waits for every process of the sandbox: the commands, and what
// they leave behind, which becomes a child of process 1.
type reaper struct {
	reaped func() // called after each

	mu       sync.Mutex
	childCh  *sync.Cond // signalled when a child has been started
	started  uint64
	commands map[int]chan syscall.WaitStatus
}

func newReaper(reaped func()) *reaper {
	r := &reaper{reaped: reaped, commands: map[int]chan syscall.WaitStatus{}}
	r.childCh = sync.NewCond(&r.mu)
	go r.loop()
	return r
}

// start calls fork and returns the child's pid and where its end is told. No
// child can be reaped before it is known here, since the lock is held.
func (r *reaper) start(fork func() (int, error)) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	r.commands[pid] = ended
	r.started++
	r.childCh.Signal()
	return pid, ended, nil
}

// signal sends sig to the process group of a command that has not been
// reaped: its pid cannot have become another's.
func (r *reaper) signal(pid int, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.commands[pid]; ok {
		syscall.Kill(-pid, sig)
	}
}

func (r *reaper) loop() {
	var seen uint64
	for {
		// Look without reaping: only the lock makes pid and command agree.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			r.reap()
		case unix.ECHILD:
			r.mu.Lock()
			for r.started == seen {
				r.childCh.Wait()
			}
			seen = r.started
			r.mu.Unlock()
		}
	}
}

// reap takes everything that has ended.
func (r *reaper) reap() {
	for {
		r.mu.Lock()
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if err == nil && pid > 0 {
			if ended, ok := r.commands[pid]; ok {
				ended <- ws
				delete(r.commands, pid)
			}
		}
		r.mu.Unlock()
		if err != nil || pid <= 0 {
			break
		}
	}
	r.reaped()
}
