package initd

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A window is how much of a stream the host has room for.
type window struct {
	mu     sync.Mutex
	change *sync.Cond
	room   int
	closed bool
}

func newWindow() *window {
	w := &window{room: wire.Window}
	w.change = sync.NewCond(&w.mu)
	return w
}

// take waits for room and takes up to n bytes of it; 0 means that the host is
// gone.
func (w *window) take(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.room == 0 && !w.closed {
		w.change.Wait()
	}
	if w.closed {
		return 0
	}
	n = min(n, w.room)
	w.room -= n
	return n
}

func (w *window) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room += n
	w.change.Broadcast()
}

func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.change.Broadcast()
}

// An output copies what a command writes to the host.
type output struct {
	f      *os.File
	kind   wire.Kind
	conn   *conn
	window *window
	done   chan struct{} // closed when no more will be sent
}

func newOutput(f *os.File, kind wire.Kind, c *conn) *output {
	out := &output{f: f, kind: kind, conn: c, window: newWindow(), done: make(chan struct{})}
	go out.copy()
	return out
}

// endBy lets the output end at deadline even if it is still open.
func (out *output) endBy(deadline time.Time) { out.f.SetReadDeadline(deadline) }

// refuse closes the output: whoever writes on gets SIGPIPE.
func (out *output) refuse() {
	out.window.close()
	out.f.Close()
}

// chunk is the least that is read at once; a stream that fills it is read in
// larger pieces.
const chunk = 4 << 10

func (out *output) copy() {
	buf := wire.NewBuffer(chunk)
	for {
		n, err := out.f.Read(buf.Payload())
		if n > 0 && !out.send(buf, n) {
			break
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			out.rest(buf)
			break
		}
		if err != nil {
			close(out.done)
			out.f.Close()
			return
		}
		if n == len(buf.Payload()) && n < wire.MaxData {
			buf = wire.NewBuffer(min(4*n, wire.MaxData))
		}
	}
	close(out.done)
	out.discard()
}

// send sends the first n bytes of buf as the host has room for them.
func (out *output) send(buf wire.Buffer, n int) bool {
	if room := out.window.take(n); room < n {
		return room > 0 && out.sendParts(buf.Payload()[:n], room)
	}
	return out.conn.write(buf.Frame(out.kind, n)) == nil
}

func (out *output) sendParts(p []byte, room int) bool {
	for {
		if out.conn.write(wire.AppendFrame(nil, out.kind, p[:room])) != nil {
			return false
		}
		p = p[room:]
		if len(p) == 0 {
			return true
		}
		if room = out.window.take(len(p)); room == 0 {
			return false
		}
	}
}

// rest sends what lies in the pipe now: all that the command itself wrote is
// there, whoever else goes on writing.
func (out *output) rest(buf wire.Buffer) {
	left := 0
	control(out.f, func(fd int) (err error) {
		left, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	for left > 0 {
		n := 0
		err := control(out.f, func(fd int) (err error) {
			n, err = unix.Read(fd, buf.Payload()[:min(left, len(buf.Payload()))])
			return err
		})
		if err != nil || n <= 0 || !out.send(buf, n) {
			return
		}
		left -= n
	}
}

// discard reads on for nobody: a job in the background is not to die of
// SIGPIPE because the call that started it has returned.
func (out *output) discard() {
	out.f.SetReadDeadline(time.Time{})
	buf := make([]byte, chunk)
	for {
		if _, err := out.f.Read(buf); err != nil {
			out.f.Close()
			return
		}
	}
}

// A feed copies what the host sends to a command's standard input.
type feed struct {
	f    *os.File
	conn *conn

	mu     sync.Mutex
	change *sync.Cond
	queue  []byte
	ended  bool // nothing more will come
	broken bool // nobody reads: what comes is dropped
}

func newFeed(f *os.File, c *conn) *feed {
	in := &feed{f: f, conn: c}
	in.change = sync.NewCond(&in.mu)
	go in.copy()
	return in
}

// add queues p. The host keeps within the window, or is cut off.
func (in *feed) add(p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue)+len(p) > wire.Window {
		return syscall.EPROTO
	}
	if in.broken {
		return nil
	}
	in.queue = append(in.queue, p...)
	in.change.Signal()
	return nil
}

// end says that nothing more will come.
func (in *feed) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.change.Signal()
}

// abandon stops the copying, also in the middle of a write that nobody takes.
func (in *feed) abandon() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended, in.broken, in.queue = true, true, nil
	in.change.Signal()
	in.f.SetWriteDeadline(time.Unix(1, 0))
}

func (in *feed) copy() {
	defer in.f.Close()
	owed := 0 // taken, and not yet told
	for {
		p, ok := in.take()
		if !ok {
			return
		}
		if _, err := in.f.Write(p); err != nil {
			in.stop()
			return
		}
		if owed += len(p); owed < wire.Window/2 {
			continue
		}
		if in.conn.send(wire.KindCredit, wire.Credit(wire.KindStdin, owed)) != nil {
			return
		}
		owed = 0
	}
}

// take waits for what is queued.
func (in *feed) take() ([]byte, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.queue) == 0 && !in.ended {
		in.change.Wait()
	}
	p := in.queue
	in.queue = nil
	return p, len(p) > 0
}

// stop tells the host that the command does not read any more.
func (in *feed) stop() {
	in.mu.Lock()
	in.broken, in.queue = true, nil
	in.mu.Unlock()
	in.conn.send(wire.KindCloseStdin, nil)
}
