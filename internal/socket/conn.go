// Package socket carries a connection over a WebSocket, and what a command's
// socket says beyond the frames of the init.
package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// A Conn is a net.Conn over a WebSocket. Binary messages are its bytes, whose
// borders mean nothing; an empty one ends its sender's direction. As
// *net.TCPConn it has CloseWrite.
//
// Each direction is a pipe with a goroutine at its far end, as a WebSocket has
// no deadlines that can be moved. Close returns when both have ended.
type Conn struct {
	ws      *websocket.Conn
	in, out net.Conn // this end of the pipes
	pumps   sync.WaitGroup
	stop    context.CancelFunc
	sent    chan struct{} // closed when all that was written has gone out

	closing sync.Once
	mu      sync.Mutex
	broken  error // why there is no more to read, unless it is the end
}

// readLimit bounds a message.
const readLimit = 8 << 20

// chunk is how much is sent in one message.
const chunk = 64 << 10

// New returns the Conn over ws, which it takes over.
func New(ws *websocket.Conn) *Conn {
	ws.SetReadLimit(readLimit)
	c := &Conn{ws: ws, sent: make(chan struct{})}
	in, fromPeer := net.Pipe()
	out, toPeer := net.Pipe()
	c.in, c.out = in, out
	ctx, stop := context.WithCancel(context.Background()) //nolint:forbidigo // the connection's own life: Close ends it
	c.stop = stop
	c.pumps.Go(func() { c.receive(ctx, fromPeer) })
	c.pumps.Go(func() {
		defer close(c.sent)
		c.send(ctx, toPeer)
	})
	return c
}

// receive ends when the socket does; after the peer's end it reads on, for
// what the protocol itself has to say.
func (c *Conn) receive(ctx context.Context, to net.Conn) {
	defer to.Close()
	buf := make([]byte, chunk)
	for {
		_, message, err := c.ws.Reader(ctx)
		n := int64(0)
		if err == nil {
			n, err = io.CopyBuffer(onlyWriter{to}, message, buf)
		}
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				c.mu.Lock()
				c.broken = err
				c.mu.Unlock()
			}
			return
		}
		if n == 0 {
			to.Close()
		}
	}
}

type onlyWriter struct{ io.Writer }

// send ends with this end's writes.
func (c *Conn) send(ctx context.Context, from net.Conn) {
	defer from.Close()
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if err != nil {
			c.ws.Write(ctx, websocket.MessageBinary, nil)
			return
		}
		if c.ws.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
			return
		}
	}
}

// Read returns io.EOF when the peer has ended its direction or closed the
// socket in good order.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if errors.Is(err, io.EOF) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.broken != nil {
			err = &net.OpError{Op: "read", Net: "websocket", Err: c.broken}
		}
	}
	return n, err
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "write", Net: "websocket", Err: net.ErrClosed}
	}
	return n, err
}

// CloseWrite ends this direction.
func (c *Conn) CloseWrite() error { return c.out.Close() }

// flushTimeout bounds the wait for what was written to go out.
const flushTimeout = 2 * time.Second

// Close closes the connection at once, but for what has been written.
func (c *Conn) Close() error {
	return c.shut(func() error {
		if err := c.ws.CloseNow(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // the peer was sooner
	})
}

// Finish closes the socket in good order, and waits a moment for the peer to
// take note.
func (c *Conn) Finish() error {
	return c.shut(func() error { return c.ws.Close(websocket.StatusNormalClosure, "") })
}

// Fail closes the socket so that the peer does not take it for an end.
func (c *Conn) Fail(reason string) error {
	return c.shut(func() error { return c.ws.Close(websocket.StatusInternalError, reason) })
}

func (c *Conn) shut(end func() error) error {
	err := os.ErrClosed
	c.closing.Do(func() {
		c.out.Close()
		late := time.AfterFunc(flushTimeout, c.stop)
		c.in.Close() // else the socket's own messages wait behind the data
		<-c.sent
		err = end()
		late.Stop()
		c.stop()
		c.pumps.Wait()
	})
	return err
}

func (c *Conn) LocalAddr() net.Addr  { return addr{} }
func (c *Conn) RemoteAddr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "websocket" }
func (addr) String() string  { return "websocket" }

func (c *Conn) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }

// SetDeadline sets both.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}
