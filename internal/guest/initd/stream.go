package initd

import (
	"os"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// An output is what a command writes, on its way to the host.
type output struct {
	fd   int // -1 once closed
	kind wire.Kind
	room int // what the host has room for
	left int // what is still to be sent, or untilEnd
	buf  wire.Buffer
}

const untilEnd = -1

// chunk is the least that is read at once; a stream that fills it is read in
// larger pieces.
const chunk = 4 << 10

func (out *output) open() bool { return out.fd >= 0 && out.left != 0 }

// copy sends what can be read now. The error is of the connection.
func (out *output) copy(c *conn) error {
	if out.buf == nil {
		out.buf = wire.NewBuffer(chunk)
	}
	p := out.buf.Payload()
	p = p[:min(len(p), out.room)]
	if out.left != untilEnd {
		p = p[:min(len(p), out.left)]
	}
	n, err := syscall.Read(out.fd, p)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return nil
	}
	if err != nil || n == 0 { // a terminal that everybody has closed says EIO
		out.close()
		return nil
	}
	out.room -= n
	if out.left != untilEnd {
		out.left -= n
	}
	_, err = c.Write(out.buf.Frame(out.kind, n))
	if n == len(out.buf.Payload()) && n < wire.MaxData {
		out.buf = wire.NewBuffer(min(4*n, wire.MaxData))
	}
	return err
}

// finish lets the output end with what lies in the pipe now: all that the
// command itself wrote is there, whoever else goes on writing.
func (out *output) finish() {
	if out.fd < 0 || out.left != untilEnd {
		return
	}
	n, err := sys.Available(out.fd)
	if err != nil {
		n = 0
	}
	out.left = n
}

// close closes the output: who writes on gets SIGPIPE.
func (out *output) close() {
	if out.fd >= 0 {
		syscall.Close(out.fd)
		out.fd = -1
	}
}

// leave ends the host's interest in the output. Somebody else may still write
// there: a job in the background is not to die of SIGPIPE because the call
// that started it has returned.
func (out *output) leave() {
	if out.fd < 0 {
		return
	}
	f := os.NewFile(uintptr(take(&out.fd)), "output")
	go func() {
		defer f.Close()
		buf := make([]byte, chunk)
		for {
			if _, err := f.Read(buf); err != nil {
				return
			}
		}
	}()
}

// A feed is what the host sends, on its way to a command's standard input.
type feed struct {
	fd    int // -1 without one, or once closed
	queue []byte
	ended bool // nothing more will come
	owed  int  // taken, and not yet told
}

func (in *feed) waiting() bool { return in.fd >= 0 && len(in.queue) > 0 }

// add queues p. The host keeps within the window, or is cut off.
func (in *feed) add(p []byte) error {
	if len(in.queue)+len(p) > wire.Window {
		return syscall.EPROTO
	}
	if in.fd >= 0 {
		in.queue = append(in.queue, p...)
	}
	return nil
}

// end says that nothing more will come.
func (in *feed) end() {
	in.ended = true
	if len(in.queue) == 0 {
		in.close()
	}
}

// copy writes what the command takes now. The error is of the connection.
func (in *feed) copy(c *conn) error {
	n, err := syscall.Write(in.fd, in.queue)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return nil
	}
	if err != nil { // the command has closed it
		in.close()
		return c.send(wire.KindCloseStdin, nil)
	}
	in.queue = in.queue[n:]
	if len(in.queue) == 0 {
		in.queue = nil
		if in.ended {
			in.close()
		}
	}
	if in.owed += n; in.owed < wire.Window/2 {
		return nil
	}
	owed := in.owed
	in.owed = 0
	return c.send(wire.KindCredit, wire.Credit(wire.KindStdin, owed))
}

func (in *feed) close() {
	in.queue = nil
	if in.fd >= 0 {
		syscall.Close(in.fd)
		in.fd = -1
	}
}
