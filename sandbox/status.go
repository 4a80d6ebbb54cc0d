package sandbox

import (
	"fmt"
	"syscall"
)

// A Cause is why a program's run is over.
type Cause string

// The causes.
const (
	CauseExit    Cause = "exit"          // it ended by itself; Code is its own
	CauseSignal  Cause = "signal"        // a signal that nobody here sent ended it
	CauseTimeout Cause = "timeout"       // a limit on time passed
	CauseKilled  Cause = "killed"        // the caller's context ended
	CauseMemory  Cause = "out-of-memory" // it was the biggest when the sandbox had no memory left
	CauseEnded   Cause = "lease-ended"   // its sandbox ended, by End, by Close or by time
	CauseLost    Cause = "sandbox-lost"  // its sandbox's engine died
	CausePaused  Cause = "paused"        // its sandbox was paused
	CauseServer  Cause = "server-lost"   // the Runtime that it was run by went away; the sandbox goes on
)

// An ExitStatus is how a program ended.
type ExitStatus struct {
	Cause  Cause
	Code   int            // as given to exit; 128 plus the signal's number on Linux if that ended it
	Signal syscall.Signal // what ended it; 0 if it exited
}

// Success reports whether the program exited by itself with code 0.
func (s ExitStatus) Success() bool { return s.Cause == CauseExit && s.Code == 0 }

func (s ExitStatus) String() string {
	switch s.Cause {
	case CauseExit:
		return fmt.Sprintf("exit status %d", s.Code)
	case CauseSignal:
		return "signal: " + s.Signal.String()
	case CauseTimeout:
		return "timed out"
	case CauseKilled:
		return "killed"
	case CauseMemory:
		return "out of memory"
	case CauseEnded:
		return "sandbox has ended"
	case CauseLost:
		return "sandbox lost"
	case CausePaused:
		return "sandbox was paused"
	case CauseServer:
		return "server lost"
	}
	return string(s.Cause)
}

// An ExitError is a program that ran and did not succeed. Everything else that
// Cmd.Run can return means that it did not run, or that its end is unknown.
//
// By errors.Is it also matches what cut the program short: ErrTimeout, the
// context's error, ErrEnded, ErrLost, or the error of a reader or writer.
type ExitError struct {
	ExitStatus
	Stderr []byte // from Output: the head and tail of what it wrote there
	Err    error  // what cut it short; nil when it ended by itself
}

func (e *ExitError) Error() string { return e.ExitStatus.String() }

func (e *ExitError) Unwrap() error { return e.Err }

// A StartError is a program that never ran: it does not exist, may not be
// executed, or its directory is missing. By errors.Is it matches
// fs.ErrNotExist, fs.ErrPermission or the like.
type StartError struct {
	Path string // the program or directory
	Err  error
}

func (e *StartError) Error() string { return "start " + e.Path + ": " + e.Err.Error() }

func (e *StartError) Unwrap() error { return e.Err }
