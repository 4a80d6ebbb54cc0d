package recipe

import (
	osexec "os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// interrupted is how long a program may take to tidy up.
const interrupted = 20 * time.Second

// group has a program that runs others in a process group of its own, all of
// which is interrupted when its context ends, as by a terminal.
//
// What it mounts as root nobody else sees, so that it is gone with it. In a
// container that does not let it, it has to see to that by itself.
func group(cmd *osexec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if may(unix.CAP_SYS_ADMIN) {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGINT) }
	cmd.WaitDelay = interrupted
}

func killGroup(cmd *osexec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }

// may reports whether this process has a capability.
func may(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}
