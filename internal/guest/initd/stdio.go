package initd

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// stdio is both ends of a command's standard streams.
type stdio struct {
	child [3]*os.File // the command's ends

	stdin, stdout, stderr *os.File // ours; nil where the command has /dev/null
	pty                   *os.File // ours is a terminal's master: stdin and stdout are copies of it
}

// openStdio makes the streams that r asks for. They belong to the command's
// user, so that it can open /dev/stdout.
func (s *server) openStdio(r *wire.Request) (*stdio, error) {
	io := &stdio{}
	err := s.as(r.UID, r.GID).do(func() error {
		if r.Terminal {
			return io.openTerminal(r.Rows, r.Cols)
		}
		return io.openPipes(r.Streams)
	})
	if err != nil {
		io.closeAll()
		return nil, err
	}
	return io, nil
}

func (io *stdio) openPipes(streams wire.Streams) error {
	ours := [3]**os.File{&io.stdin, &io.stdout, &io.stderr}
	for i, bit := range [3]wire.Streams{wire.Stdin, wire.Stdout, wire.Stderr} {
		if bit == wire.Stderr && streams&wire.Merged != 0 {
			var err error
			if io.child[i], err = dup(io.child[1]); err != nil {
				return err
			}
			continue
		}
		if streams&bit == 0 {
			null, err := openFile("/dev/null", unix.O_RDWR)
			if err != nil {
				return err
			}
			io.child[i] = null
			continue
		}
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		host, child := p[0], p[1]
		if bit == wire.Stdin {
			host, child = p[1], p[0]
		}
		unix.SetNonblock(host, true)
		*ours[i] = os.NewFile(uintptr(host), "pipe")
		io.child[i] = os.NewFile(uintptr(child), "pipe")
	}
	return nil
}

func (io *stdio) openTerminal(rows, cols uint16) error {
	master, err := openFile("/dev/ptmx", unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	io.pty = master
	var n int
	err = control(master, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	if err != nil {
		return err
	}
	if err := setSize(master, max(rows, 1), max(cols, 1)); err != nil {
		return err
	}
	for i := range io.child {
		if io.child[i], err = openFile("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY); err != nil {
			return err
		}
	}
	// Two more descriptors, so that each direction has one to close.
	if io.stdin, err = dup(master); err != nil {
		return err
	}
	io.stdout, err = dup(master)
	return err
}

func openFile(path string, flags int) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func dup(f *os.File) (*os.File, error) {
	var fd int
	err := control(f, func(old int) (err error) {
		fd, err = unix.FcntlInt(uintptr(old), unix.F_DUPFD_CLOEXEC, 3)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func (io *stdio) closeChild() { closeFiles(io.child[:]...) }

func (io *stdio) closeHost() { closeFiles(io.stdin, io.stdout, io.stderr, io.pty) }

func (io *stdio) closeAll() {
	io.closeChild()
	io.closeHost()
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// startError says that a command could not be started, and on what.
func startError(err error, path string) error {
	e := wireError(err)
	e.Phase = wire.PhaseStart
	if e.Path == "" {
		e.Path = path
	}
	if e.Errno == syscall.Errno(0) && e.Text == "" {
		e.Text = "could not be started"
	}
	return e
}
