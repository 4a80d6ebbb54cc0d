//go:build unix

package linux

import "syscall"

// signals are this system's, at Linux's numbers.
var signals = [...]int{
	0:  0, // which stands for no signal
	1:  int(syscall.SIGHUP),
	2:  int(syscall.SIGINT),
	3:  int(syscall.SIGQUIT),
	4:  int(syscall.SIGILL),
	5:  int(syscall.SIGTRAP),
	6:  int(syscall.SIGABRT),
	7:  int(syscall.SIGBUS),
	8:  int(syscall.SIGFPE),
	9:  int(syscall.SIGKILL),
	10: int(syscall.SIGUSR1),
	11: int(syscall.SIGSEGV),
	12: int(syscall.SIGUSR2),
	13: int(syscall.SIGPIPE),
	14: int(syscall.SIGALRM),
	15: int(syscall.SIGTERM),
	16: none, // SIGSTKFLT
	17: int(syscall.SIGCHLD),
	18: int(syscall.SIGCONT),
	19: int(syscall.SIGSTOP),
	20: int(syscall.SIGTSTP),
	21: int(syscall.SIGTTIN),
	22: int(syscall.SIGTTOU),
	23: int(syscall.SIGURG),
	24: int(syscall.SIGXCPU),
	25: int(syscall.SIGXFSZ),
	26: int(syscall.SIGVTALRM),
	27: int(syscall.SIGPROF),
	28: int(syscall.SIGWINCH),
	29: int(syscall.SIGIO),
	30: none, // SIGPWR
	31: int(syscall.SIGSYS),
}

// resources are those that package syscall names, at Linux's numbers.
var resources = [...]int{
	0: syscall.RLIMIT_CPU,
	1: syscall.RLIMIT_FSIZE,
	2: syscall.RLIMIT_DATA,
	3: syscall.RLIMIT_STACK,
	4: syscall.RLIMIT_CORE,
	5: none, // RLIMIT_RSS
	6: none, // RLIMIT_NPROC
	7: syscall.RLIMIT_NOFILE,
	8: none, // RLIMIT_MEMLOCK
	9: syscall.RLIMIT_AS,
}
