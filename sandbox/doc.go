// Package sandbox leases gVisor sandboxes on this machine and runs programs in
// them.
//
// A Runtime, made by New, holds a folder and the sandboxes in it. Lease makes
// a sandbox; it ends by End, when its time is up, or with the Runtime. A
// Sandbox is a handle: Command runs programs as os/exec does, FS and WriteFile
// are its files, DialContext reaches the ports that programs inside listen on.
//
// # The engine
//
// A program that blank-imports package sandbox/runsc carries gVisor. It must
// be a static binary, built with CGO_ENABLED=0; one that cannot be names a
// static program in Config.Executable. The same executable is the init inside
// sandboxes, so what it does while Go initialises its packages before this
// one's, it does there too, as the guest's root but with nothing of the host
// in reach; Config.Executable is the remedy for that as well.
//
// # Three failures
//
// A program that ran and failed is an *ExitError, which tells its code or
// signal, and the cause when something else ended it. A program that could not
// be started is a *StartError. Any other error is a call that failed: an
// *Error with one of the sentinels, or, for files, an *fs.PathError.
//
// # What is inside
//
// A sandbox of class exec has the working directory /mnt/data of 2 GiB, which
// belongs to user 1000, as which commands run; a home, a /tmp and a /var/tmp of
// 512 MiB each, on disk as well; a /dev/shm of 256 MiB in memory; a read-only
// image; the host name sandbox; a UTF-8 locale; a loopback interface and no
// other network; and an environment that has nothing of this process's. What
// is full gives ENOSPC.
//
// # Limits
//
// A sandbox has the memory and the processors of its Spec, and 512 processes a
// command. When the memory is used up, the largest command ends with
// CauseMemory and the sandbox goes on: its programs, its files in memory and
// its kernel count, page cache does not. A program that grows faster than it
// can be killed, which takes some 50 ms, is stopped by this machine's kernel,
// by which the sandbox is lost; its commands then end with CauseMemory as well,
// and Info.Error tells. Runtime.Enforcement tells what this machine enforces.
//
// # Concurrency
//
// Everything here but Cmd is safe for concurrent use. No lock is held while an
// engine process runs. Close waits for all that a Runtime started.
//
// # Other systems
//
// A Runtime needs Linux: New is only there. What works over any Driver, as
// over package client's for sandboxes on a server, builds on macOS, FreeBSD and
// Windows too. Signals, errors and the resources of a Rlimit are then those of
// the system that this program runs on, and are told apart by name: a
// syscall.SIGUSR1 arrives as SIGUSR1, though its number is another. What Linux
// has and package syscall there does not is 128 plus its number on Linux; on
// Windows signals and resources have Linux's numbers themselves. A signal that
// Linux lacks is not sent.
//
// # Rough edges
//
// What was typed at a terminal before the program there has set it up can be
// lost: wait for its prompt. A program's listening socket is found by Ports
// only if it is TCP.
package sandbox
