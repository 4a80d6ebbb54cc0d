package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// A tty is the terminal that is standard input, raw until it is restored, also
// while this program is stopped.
type tty struct {
	fd      int
	before  *term.State
	sized   func(rows, cols int)
	signals chan os.Signal

	mu       sync.Mutex
	restored bool
}

// raw takes the terminal. Sized is told its size when that has changed.
func (a *app) raw(sized func(rows, cols int)) (*tty, error) {
	t := &tty{fd: int(os.Stdin.Fd()), sized: sized, signals: make(chan os.Signal, 4)}
	var err error
	if t.before, err = term.MakeRaw(t.fd); err != nil {
		return nil, err
	}
	a.tty.Store(t)
	signal.Notify(t.signals, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT)
	go t.watch()
	return t, nil
}

func (t *tty) watch() {
	for s := range t.signals {
		switch s {
		case syscall.SIGTSTP:
			t.set(t.before)
			syscall.Kill(os.Getpid(), syscall.SIGSTOP) //nolint:errcheck // this process is there
		case syscall.SIGCONT:
			t.set(nil)
		}
		if s != syscall.SIGTSTP {
			t.sized(size(t.fd))
		}
	}
}

// set has the terminal be in a state, or raw, if it is still taken.
func (t *tty) set(state *term.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.restored:
	case state != nil:
		term.Restore(t.fd, state) //nolint:errcheck // there is nothing else to try
	default:
		term.MakeRaw(t.fd) //nolint:errcheck // as above
	}
}

// restore gives the terminal back as it was.
func (t *tty) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.restored {
		return
	}
	t.restored = true
	signal.Stop(t.signals)
	close(t.signals)
	term.Restore(t.fd, t.before) //nolint:errcheck // there is nothing else to try
}

// lost are the modes that a program on the far side sets and cannot reset when
// it is lost: the other screen, a hidden cursor, the mouse, pasting, colours.
const lost = "\x1b[?1047l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0m\r\n\x1b[J"

// reset has the terminal forget what a program that was lost had set.
func (t *tty) reset() {
	if isTerminal(os.Stdout) {
		os.Stdout.WriteString(lost) //nolint:errcheck // there is nothing else to try
	}
}

// largest is how many rows and columns a terminal of a sandbox's can have.
const largest = 1000

// size is that of a terminal; 24 by 80 if it has none.
func size(fd int) (rows, cols int) {
	cols, rows, err := term.GetSize(fd)
	if err != nil || rows < 1 || cols < 1 {
		return 24, 80
	}
	return min(rows, largest), min(cols, largest)
}
