package initd

import (
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

func TestListening(t *testing.T) {
	is := is.New(t)
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0
   3: 0100007F:C351 0100007F:1F90 06 00000000:00000000 00:00000000 00000000  1000        0 4 1 0
   4: 00000000000000000000000001000000:FFFF 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000
   5: 0100007F:10000 00000000:0000 0A
   6: 0100007F:zz 00000000:0000 0A
   7: noport 00000000:0000 0A
   8: 0100007F:
   9: 0100007F:0001 00000000:0000 0A`
	is.Equal(listening(table), []uint16{8080, 22, 65535, 1})
	is.Equal(len(listening("")), 0)
	is.Equal(len(listening("\n\n \n")), 0)
}

func TestPorts(t *testing.T) {
	is := is.New(t)
	var want []uint16
	for _, addr := range []string{"127.0.0.1:0", "127.0.0.1:0"} {
		l, err := net.Listen("tcp", addr)
		is.NoErr(err)
		defer l.Close()
		want = append(want, uint16(l.Addr().(*net.TCPAddr).Port))
	}
	h := serving(t, &server{})
	h.send(wire.KindRequest, (&wire.Request{Op: wire.OpPorts}).Append(nil))
	got, err := wire.ParsePorts([]byte(h.next(wire.KindOK)))
	is.NoErr(err)
	is.True(slices.IsSorted(got))
	is.Equal(len(slices.Compact(slices.Clone(got))), len(got)) // each once
	for _, port := range want {
		is.True(slices.Contains(got, port)) // what listens is listed
	}
}

// TestDial carries bytes both ways, each direction to its own end.
func TestDial(t *testing.T) {
	is := is.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	defer l.Close()
	heard := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		said, _ := io.ReadAll(c) // up to the host's end
		heard <- string(said)
		io.WriteString(c, "and the answer after it")
	}()
	h := serving(t, &server{})
	request := (&wire.Request{Op: wire.OpDial, Port: uint16(l.Addr().(*net.TCPAddr).Port)}).Append(nil)
	early := strings.Repeat("early ", 100)
	_, err = h.Write(append(wire.AppendFrame(nil, wire.KindRequest, request), early...)) // bytes that come with the request
	is.NoErr(err)
	h.next(wire.KindOK)
	large := strings.Repeat("x", 1<<20)
	_, err = io.WriteString(h, large)
	is.NoErr(err)
	raw, err := h.SyscallConn()
	is.NoErr(err)
	is.NoErr(raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_WR) }))
	got, err := io.ReadAll(io.MultiReader(strings.NewReader(string(h.in.Buffered())), h))
	is.NoErr(err)
	is.Equal(string(got), "and the answer after it")
	is.True(<-heard == early+large)
}

// TestDialHangUp: a host that is gone does not hold the server's connection.
func TestDialHangUp(t *testing.T) {
	is := is.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	defer l.Close()
	h := serving(t, &server{})
	h.send(wire.KindRequest, (&wire.Request{Op: wire.OpDial, Port: uint16(l.Addr().(*net.TCPAddr).Port)}).Append(nil))
	c, err := l.Accept()
	is.NoErr(err)
	defer c.Close()
	h.next(wire.KindOK)
	h.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	_, err = c.Read(make([]byte, 1))
	is.Equal(err, io.EOF)
	// serving waits for both directions.
}

func TestDialRefused(t *testing.T) {
	is := is.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	h := serving(t, &server{})
	h.send(wire.KindRequest, (&wire.Request{Op: wire.OpDial, Port: port}).Append(nil))
	is.Equal(h.nextError().Errno, syscall.ECONNREFUSED)
}
