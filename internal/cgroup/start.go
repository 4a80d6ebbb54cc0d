package cgroup

import (
	"os"
	osexec "os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Start starts cmd inside the group. It is there from its first instruction,
// and so is whatever it starts.
//
// On v2 the kernel starts it there. On v1 a process is where the thread that
// made it is: one is sent there to do it, and ends.
func (g *Group) Start(cmd *osexec.Cmd) error {
	var tasks []string
	for i := range g.Places {
		p := &g.Places[i]
		if !p.Unified {
			tasks = append(tasks, p.path("tasks"))
			continue
		}
		dir, err := os.OpenFile(p.Dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer dir.Close()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &unix.SysProcAttr{}
		}
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if len(tasks) == 0 {
		return cmd.Start()
	}
	return onLastThread(func() error {
		tid := strconv.Itoa(unix.Gettid())
		for _, file := range tasks {
			if err := write(file, tid); err != nil {
				return err
			}
		}
		return cmd.Start()
	})
}

// onLastThread calls f on a thread that ends with it, whatever f has made of
// the thread, and returns when it has.
func onLastThread(f func() error) error {
	done, thread := make(chan error, 1), 0
	go func() {
		runtime.LockOSThread() // and never unlock: Go ends the thread with the goroutine
		if unix.Gettid() != os.Getpid() {
			thread = unix.Gettid()
			done <- f()
			return
		}
		// The main thread cannot end. While it is held here, another
		// goroutine is on another.
		done <- onLastThread(f)
		runtime.UnlockOSThread()
	}()
	err := <-done
	for thread != 0 && unix.Tgkill(os.Getpid(), thread, 0) == nil {
		runtime.Gosched()
	}
	return err
}
