// Package linux has the numbers of signals, errors and resource limits as
// Linux has them: what is said to a sandbox and what comes from there has
// those, whatever system this program runs on. On Linux that is all the same,
// and nothing is looked up.
//
// The init inside is entered before most packages are initialised, see package
// guest, and stands on this one.
package linux

import (
	"runtime"
	"syscall"
)

const (
	here = runtime.GOOS == "linux"
	// Windows has few signals, which have the same numbers, and no resource
	// limits. The numbers of others are Linux's there.
	sameSignals = here || runtime.GOOS == "windows"
)

// Signal is Linux's number of a signal of this system's, -1 if Linux has none
// like it.
func Signal(s syscall.Signal) int {
	if sameSignals {
		return int(s)
	}
	return toLinux(signals[:], int(s))
}

// LocalSignal is this system's signal of Linux's number. If there is none like
// it, it is 128 plus the number.
func LocalSignal(n int) syscall.Signal {
	if sameSignals {
		return syscall.Signal(n)
	}
	return syscall.Signal(fromLinux(signals[:], n))
}

// Resource is Linux's number of a resource, as of RLIMIT_AS, of this system's,
// -1 if Linux has none like it.
func Resource(r int) int {
	if sameSignals {
		return r
	}
	return toLinux(resources[:], r)
}

// LocalResource is this system's resource of Linux's number. If there is none
// like it, it is 128 plus the number.
func LocalResource(n int) int {
	if sameSignals {
		return n
	}
	return fromLinux(resources[:], n)
}

// beyond is added to numbers of Linux's for which this system has none. It has
// no signal and no resource of that number or a higher one.
const beyond = 128

// none is a gap in a table, whose indexes are Linux's numbers.
const none = -1

func toLinux(table []int, local int) int {
	if local >= beyond {
		return local - beyond
	}
	for n, l := range table {
		if l == local && l != none {
			return n
		}
	}
	return -1
}

func fromLinux(table []int, n int) int {
	switch {
	case n < 0: // which no peer in its senses says
		return none
	case n < len(table) && table[n] != none:
		return table[n]
	}
	return beyond + n
}
