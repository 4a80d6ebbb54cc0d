package volume

import "syscall"

// DieAt has this process killed when it comes to a step.
func DieAt(name string) {
	step = func(s string) {
		if s == name {
			syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// NotEnforced has a Store answer so, and make plain folders.
func (s *Store) NotEnforced(why error) { s.tried = func() error { return why } }

// ErrTrial says that it is not known.
var ErrTrial = errTrial

// MaxTemplates is how many are kept.
const MaxTemplates = maxTemplates
