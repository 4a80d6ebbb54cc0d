//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process is one of this machine, told from any other that may get its
// number by when it started.
type process struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // in clock ticks since boot
}

func findProcess(pid int) (process, error) {
	started, err := processStart(pid)
	return process{PID: pid, Started: started}, err
}

// kill ends the process and returns when it is gone. It is held by a
// descriptor before it is looked at, so that what is killed is what was meant.
func (p process) kill(ctx context.Context) error {
	if p.PID <= 0 {
		return nil
	}
	pidfd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("engine: process %d: %w", p.PID, err)
	}
	defer unix.Close(pidfd)
	if alive, err := p.alive(); !alive {
		return err
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("engine: kill: %w", err)
	}
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, killPoll)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return context.Cause(ctx)
}

// killPoll is how often, in milliseconds, the wait for a killed process looks
// at its deadline.
const killPoll = 100

// alive reports whether the process exists.
func (p process) alive() (bool, error) {
	now, err := processStart(p.PID)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil && now == p.Started, err
}

// names reports whether the process's command line has s in it.
func (p process) names(s string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
	return err == nil && bytes.Contains(b, []byte(s))
}

// processStart returns when a process started: see proc_pid_stat(5), field 22.
// A zombie does not exist any more.
func processStart(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return 0, os.ErrNotExist
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// bootID tells one run of the machine from another.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
