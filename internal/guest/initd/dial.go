package initd

import (
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"

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
	defer server.Close()
	if err := c.send(wire.KindOK, nil); err != nil {
		return err
	}
	host, ahead, err := c.file()
	if err != nil {
		return err
	}
	defer host.Close()
	up := make(chan struct{})
	go func() {
		defer close(up)
		if _, err := server.Write(ahead); err == nil {
			carry(server, host)
		}
		shutdown(server, syscall.SHUT_WR)
		// A host that sends no more may still listen; one that has hung up
		// does not, and must not hold the server's connection open.
		if hungUp(host) {
			shutdown(server, syscall.SHUT_RDWR)
		}
	}()
	carry(host, server)
	shutdown(host, syscall.SHUT_WR)
	<-up
	return nil
}

// carry copies until one side ends.
func carry(dst io.Writer, src io.Reader) {
	io.CopyBuffer(onlyWriter{dst}, onlyReader{src}, make([]byte, copyBuffer))
}

const copyBuffer = 64 << 10

// onlyReader and onlyWriter hide what would make io.Copy use splice, which
// the engine's sockets do not do.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// connect tries both loopback addresses: servers listen on either.
func connect(port uint16) (*os.File, error) {
	f, err := connectTo(syscall.AF_INET, &syscall.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if err != syscall.ECONNREFUSED {
		return f, err
	}
	if f6, err6 := connectTo(syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}); err6 == nil {
		return f6, nil
	}
	return nil, err
}

// connectTo blocks a thread for a moment: on loopback the answer is there at
// once, but for a server whose backlog is full, which gets ten seconds.
func connectTo(family int, to syscall.Sockaddr) (*os.File, error) {
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &syscall.Timeval{Sec: 10})
	if err := syscall.Connect(fd, to); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "tcp"), nil
}

func shutdown(f *os.File, how int) {
	control(f, func(fd int) error { return syscall.Shutdown(fd, how) })
}

// hungUp waits until the peer of a socket that has reached its end has either
// closed it or gets the server's end. It holds a thread meanwhile, as there is
// no other way to wait for POLLHUP alone.
func hungUp(f *os.File) bool {
	up := false
	control(f, func(fd int) error {
		for {
			p := []sys.PollFd{{Fd: int32(fd)}}
			n, err := sys.Poll(p, -1)
			if err == syscall.EINTR {
				continue
			}
			up = n > 0 && p[0].Revents&(sys.POLLHUP|sys.POLLERR) != 0
			return err
		}
	})
	return up
}

func control(f *os.File, op func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = op(int(fd)) }); e != nil {
		return e
	}
	return err
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
