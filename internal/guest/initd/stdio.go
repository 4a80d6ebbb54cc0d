package initd

import (
	"strconv"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// stdio is both ends of a command's standard streams, as descriptors; -1 is
// none. Ours do not block, the command's do.
type stdio struct {
	child                 [3]int
	stdin, stdout, stderr int // ours; none where the command has /dev/null
	pty                   int // a terminal's master, of which stdin and stdout are copies
}

// openStdio makes the streams that r asks for. They belong to who calls: the
// command's user, so that it can open /dev/stdout.
func openStdio(r *wire.Request) (io *stdio, err error) {
	io = &stdio{child: [3]int{-1, -1, -1}, stdin: -1, stdout: -1, stderr: -1, pty: -1}
	if r.Terminal {
		err = io.openTerminal(r.Rows, r.Cols)
	} else {
		err = io.openPipes(r.Streams)
	}
	if err != nil {
		io.closeChild()
		io.closeHost()
		return nil, err
	}
	return io, nil
}

func (io *stdio) openPipes(streams wire.Streams) (err error) {
	ours := [3]*int{&io.stdin, &io.stdout, &io.stderr}
	for i, bit := range [3]wire.Streams{wire.Stdin, wire.Stdout, wire.Stderr} {
		switch {
		case bit == wire.Stderr && streams&wire.Merged != 0:
			io.child[i], err = sys.Dup(io.child[1])
		case streams&bit == 0:
			io.child[i], err = openFD("/dev/null", syscall.O_RDWR)
		case bit == wire.Stdin:
			io.child[i], *ours[i], err = pipe()
		default:
			*ours[i], io.child[i], err = pipe()
		}
		if err != nil {
			return err
		}
		if *ours[i] >= 0 {
			if err := syscall.SetNonblock(*ours[i], true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (io *stdio) openTerminal(rows, cols uint16) (err error) {
	if io.pty, err = openFD("/dev/ptmx", syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY); err != nil {
		return err
	}
	n, err := sys.OpenSlave(io.pty)
	if err != nil {
		return err
	}
	if err := sys.SetSize(io.pty, max(rows, 1), max(cols, 1)); err != nil {
		return err
	}
	for i := range io.child {
		if io.child[i], err = openFD("/dev/pts/"+strconv.Itoa(n), syscall.O_RDWR|syscall.O_NOCTTY); err != nil {
			return err
		}
	}
	// Copies, so that each direction has a descriptor to close.
	if io.stdin, err = sys.Dup(io.pty); err != nil {
		return err
	}
	io.stdout, err = sys.Dup(io.pty)
	return err
}

func openFD(path string, flags int) (int, error) {
	fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, pathError("open", path, err)
	}
	return fd, nil
}

func pipe() (r, w int, err error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	return p[0], p[1], nil
}

func (io *stdio) closeChild() { closeFDs(&io.child[0], &io.child[1], &io.child[2]) }

func (io *stdio) closeHost() { closeFDs(&io.stdin, &io.stdout, &io.stderr, &io.pty) }

func closeFDs(fds ...*int) {
	for _, fd := range fds {
		if *fd >= 0 {
			syscall.Close(take(fd))
		}
	}
}
