package initd

import (
	"os"
	"strconv"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A command with resource limits takes a second step: the init starts itself
// again, and that process limits itself before it becomes the program. Limits
// set from outside would come after the program's first instructions, and
// those of the init itself cannot change for a moment.

// limited is the first argument of that step.
const limited = "limited"

// forkLimited starts the step and waits until it is the program or has told
// on its status pipe why not.
func forkLimited(path string, r *wire.Request, attr *syscall.ProcAttr) (int, error) {
	var status [2]int
	if err := syscall.Pipe2(status[:], syscall.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer syscall.Close(status[0])
	attr.Files = append(attr.Files, uintptr(status[1]))
	attr.Env = nil // the command's may hold what the Go runtime listens to
	pid, err := syscall.ForkExec("/proc/self/exe", limitedArgs(path, r), attr)
	syscall.Close(status[1])
	if err != nil {
		return 0, err
	}
	var errno [1]byte // Linux has fewer than 256
	if n, _ := syscall.Read(status[0], errno[:]); n == len(errno) {
		syscall.Wait4(pid, nil, 0, nil)
		syscall.Close(*attr.Sys.PidFD)
		return 0, syscall.Errno(errno[0])
	}
	return pid, nil
}

func limitedArgs(path string, r *wire.Request) []string {
	args := []string{os.Args[0], limited, path, strconv.Itoa(int(r.UID)), strconv.Itoa(int(r.GID)), strconv.Itoa(len(r.Limits)), strconv.Itoa(len(r.Argv))}
	for _, l := range r.Limits {
		args = append(args, strconv.Itoa(l.Resource), strconv.FormatUint(l.Value, 10))
	}
	return append(append(args, r.Argv...), r.Env...)
}

// becomeLimited is the other half: args are as limitedArgs made them, and the
// status pipe is descriptor 3.
func becomeLimited(args []string) {
	syscall.CloseOnExec(3)
	err := execLimited(args)
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = syscall.EINVAL
	}
	syscall.Write(3, []byte{byte(errno)})
	os.Exit(1)
}

func execLimited(args []string) error {
	path, uid, gid := args[0], number(args[1]), number(args[2])
	nlimits, nargv := 2*number(args[3]), number(args[4])
	args = args[5:]
	limits, argv, env := args[:nlimits], args[nlimits:nlimits+nargv], args[nlimits+nargv:]
	path0, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	argv0, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return err
	}
	env0, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return err
	}
	if err := drop(uid, gid); err != nil {
		return err
	}
	for i := 0; i < len(limits); i += 2 {
		value, err := strconv.ParseUint(limits[i+1], 10, 64)
		if err != nil {
			return err
		}
		if err := sys.SetLimit(number(limits[i]), value); err != nil {
			return err
		}
	}
	// Under a limit on memory this process may not even allocate.
	return sys.Exec(path0, argv0, env0)
}

// drop gives up root for good, on all threads.
func drop(uid, gid int) error {
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return err
	}
	return syscall.Setresuid(uid, uid, uid)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fatal("limited", err)
	}
	return n
}
