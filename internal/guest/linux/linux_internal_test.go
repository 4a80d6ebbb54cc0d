//go:build linux

package linux

import (
	"syscall"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"
)

// TestTables has every row say what it is the row of: here the numbers of this
// system are Linux's, and elsewhere they are those of the same names.
func TestTables(t *testing.T) {
	is := is.New(t)
	gaps := map[int]bool{int(unix.SIGSTKFLT): true, int(unix.SIGPWR): true}
	is.Equal(len(signals), 32) // those that are no real-time signals
	for n, local := range signals {
		is.True(local == n && !gaps[n] || local == none && gaps[n])
	}
	gaps = map[int]bool{unix.RLIMIT_RSS: true, unix.RLIMIT_NPROC: true, unix.RLIMIT_MEMLOCK: true}
	for n, local := range resources {
		is.True(local == n && !gaps[n] || local == none && gaps[n])
	}
	for n := range 1 << 12 {
		e := syscall.Errno(n)
		is.Equal(ErrnoName(n), unix.ErrnoName(e)) // a new one of Linux's wants a row
		if ErrnoName(n) == "" {
			continue
		}
		is.Equal(ErrnoNamed(ErrnoName(n)), n)
		if local := errnos[n].local; local != 0 {
			is.Equal(local, e)
			is.Equal(errnoOf(local), n)
		}
	}
}

// TestSame is that on Linux nothing changes, also what is in no table.
func TestSame(t *testing.T) {
	is := is.New(t)
	for n := range 1 << 12 {
		is.Equal(Signal(syscall.Signal(n)), n)
		is.Equal(LocalSignal(n), syscall.Signal(n))
		is.Equal(Resource(n), n)
		is.Equal(LocalResource(n), n)
		is.Equal(Errno(syscall.Errno(n)), n)
		is.Equal(LocalErrno(n), syscall.Errno(n))
	}
	is.Equal(ErrnoNamed(""), 0)
	is.Equal(ErrnoNamed("ENOTHING"), 0)
	is.Equal(ErrnoName(-1), "")
}

// darwin are some signals there, at Linux's numbers.
var darwin = []int{
	0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 10, 8: 8, 9: 9, 10: 30, 11: 11, 12: 31, 13: 13, 14: 14, 15: 15, 16: none,
	17: 20, 18: 19, 19: 17, 20: 18,
}

func TestElsewhere(t *testing.T) {
	is := is.New(t)
	taken := map[int]int{}
	for n := range beyond { // each number of Linux's is one there, and comes back
		local := fromLinux(darwin, n)
		other, ok := taken[local]
		is.True(!ok || other == n)
		taken[local] = n
		is.Equal(toLinux(darwin, local), n)
	}
	is.Equal(fromLinux(darwin, -1), -1)
	for _, c := range []struct{ local, linux int }{
		{2, 2},         // SIGINT
		{30, 10},       // SIGUSR1
		{20, 17},       // SIGCHLD
		{17, 19},       // SIGSTOP
		{18, 20},       // SIGTSTP
		{16, -1},       // SIGURG, which this table lacks, is not Linux's SIGSTKFLT
		{7, -1},        // SIGEMT is not Linux's SIGBUS
		{-1, -1},       // nor is a gap one
		{128 + 16, 16}, // SIGSTKFLT
		{128 + 34, 34}, // SIGRTMIN
	} {
		is.Equal(toLinux(darwin, c.local), c.linux)
		if c.linux >= 0 {
			is.Equal(fromLinux(darwin, c.linux), c.local)
		}
	}
}
