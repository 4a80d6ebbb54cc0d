package initd

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// dial connects the host to a port on the loopback interface, then carries
// raw bytes both ways. Each direction ends by itself.
func dial(c *conn, r *wire.Request) error {
	server, err := connect(r.Port)
	if err != nil {
		return err
	}
	defer syscall.Close(server)
	if err := c.send(wire.KindOK, nil); err != nil {
		return err
	}
	if err := syscall.SetNonblock(c.fd, true); err != nil {
		return err
	}
	up, down := newCarrier(c.fd, server), newCarrier(server, c.fd)
	up.buf = append(up.buf, c.in.Buffered()...)
	(&relay{host: c.fd, server: server, up: up, down: down}).run()
	if !up.closed {
		// The server has not got all and never will. A plain close would wait
		// behind what it does not take; a reset tells it now.
		syscall.SetsockoptLinger(server, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	return nil
}

// A relay is a dialled connection: one thread in a loop around poll.
type relay struct {
	host, server int
	up, down     *carrier
	until        time.Time // set when the host has hung up: what it sent has that long to be taken
}

// linger is how long a server may take for what a host sent before it closed
// the connection.
const linger = 5 * time.Second

func (r *relay) run() {
	for !r.over() {
		fds := []sys.PollFd{{Fd: int32(r.host)}, {Fd: int32(r.server)}}
		fds[0].Events = r.up.wants(sys.POLLIN) | r.down.gives(sys.POLLOUT)
		fds[1].Events = r.down.wants(sys.POLLIN) | r.up.gives(sys.POLLOUT)
		if !r.until.IsZero() {
			fds[0].Fd = -1 // it would say so again and again
		}
		if fds[1].Events == 0 {
			fds[1].Fd = -1
		}
		if _, err := sys.Poll(fds, r.timeout()); err != nil && err != syscall.EINTR {
			return
		}
		if fds[0].Revents&(sys.POLLHUP|sys.POLLERR) != 0 && r.until.IsZero() {
			r.until = time.Now().Add(linger)
			r.down.stop()
		}
		r.up.step()
		r.down.step()
	}
}

// over reports whether nothing is left to carry, or nobody to carry it for.
func (r *relay) over() bool {
	if r.up.done() && (r.down.done() || !r.until.IsZero()) {
		return true
	}
	return !r.until.IsZero() && time.Now().After(r.until)
}

func (r *relay) timeout() int {
	if r.until.IsZero() {
		return -1
	}
	return max(int(time.Until(r.until).Milliseconds()), 0) + 1
}

// A carrier is one direction of a relay.
type carrier struct {
	from, to int
	buf      []byte // read and not yet written
	ended    bool   // nothing more will be read
	closed   bool   // who reads has been told so
	broken   bool   // who reads does not any more
}

const carryBuffer = 64 << 10

func newCarrier(from, to int) *carrier {
	return &carrier{from: from, to: to, buf: make([]byte, 0, carryBuffer)}
}

func (c *carrier) wants(event int16) int16 {
	if c.ended || c.broken || len(c.buf) == cap(c.buf) {
		return 0
	}
	return event
}

func (c *carrier) gives(event int16) int16 {
	if len(c.buf) == 0 || c.broken {
		return 0
	}
	return event
}

func (c *carrier) done() bool { return c.closed || c.broken }

// stop ends a direction whose reader has gone, and tells its writer.
func (c *carrier) stop() {
	c.ended, c.broken, c.buf = true, true, nil
	syscall.Shutdown(c.from, syscall.SHUT_RD)
}

// step carries what can be carried now.
func (c *carrier) step() {
	if !c.ended && len(c.buf) < cap(c.buf) {
		n, err := syscall.Read(c.from, c.buf[len(c.buf):cap(c.buf)])
		switch {
		case n > 0:
			c.buf = c.buf[:len(c.buf)+n]
		case err != syscall.EAGAIN && err != syscall.EINTR:
			c.ended = true
		}
	}
	if len(c.buf) > 0 {
		n, err := syscall.Write(c.to, c.buf)
		switch {
		case n > 0:
			c.buf = append(c.buf[:0], c.buf[n:]...)
		case err != syscall.EAGAIN && err != syscall.EINTR:
			c.stop()
			return
		}
	}
	if c.ended && len(c.buf) == 0 && !c.done() {
		c.closed = true
		syscall.Shutdown(c.to, syscall.SHUT_WR)
	}
}

// connect tries both loopback addresses: servers listen on either.
func connect(port uint16) (int, error) {
	fd, err := connectTo(syscall.AF_INET, &syscall.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if err != syscall.ECONNREFUSED {
		return fd, err
	}
	if fd6, err6 := connectTo(syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}); err6 == nil {
		return fd6, nil
	}
	return -1, err
}

// connectTo blocks a thread for a moment: on loopback the answer is there at
// once, but for a server whose backlog is full, which gets ten seconds.
func connectTo(family int, to syscall.Sockaddr) (int, error) {
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &syscall.Timeval{Sec: 10})
	if err := syscall.Connect(fd, to); err != nil {
		syscall.Close(fd)
		return -1, err
	}
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	return fd, syscall.SetNonblock(fd, true)
}

// ports lists the TCP ports that something listens on.
func ports(c *conn) error {
	var list []uint16
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			return err
		}
		list = append(list, listening(string(b))...)
	}
	slices.Sort(list)
	return c.send(wire.KindOK, wire.Ports(slices.Compact(list)))
}

// listening reads the ports in state LISTEN (0A) from a table as in
// proc_net_tcp(5).
func listening(table string) (list []uint16) {
	for table != "" {
		line, rest, _ := cut(table, '\n')
		table = rest
		field := fields(line)
		if len(field) < 4 || field[3] != "0A" {
			continue
		}
		_, number, _ := cut(field[1], ':')
		port, err := strconv.ParseUint(number, 16, 16)
		if err == nil {
			list = append(list, uint16(port))
		}
	}
	return list
}
