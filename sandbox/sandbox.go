package sandbox

import (
	"context"
	"errors"
	"net"
)

// A Sandbox is a handle to a leased sandbox. It is cheap, holds nothing open
// and is safe for concurrent use; several handles to one sandbox are as good
// as one. Its methods return ErrEnded once the lease has ended.
type Sandbox struct {
	driver Driver
	id     string
}

// Handle returns the handle to a sandbox of d. It does not check that the
// sandbox exists: Runtime.Lease and Runtime.Attach do.
func Handle(d Driver, id string) *Sandbox { return &Sandbox{driver: d, id: id} }

// ID is the sandbox's name: 21 characters of a-z and 0-9, never used twice.
func (s *Sandbox) ID() string { return s.id }

// Info describes the sandbox as it is now.
func (s *Sandbox) Info(ctx context.Context) (Info, error) { return s.driver.Info(ctx, s.id) }

// End ends the lease and everything in the sandbox: its processes and, unless
// they are on a volume that outlives it, its files. Ending it twice is an
// error that matches ErrEnded.
func (s *Sandbox) End(ctx context.Context) error { return s.driver.End(ctx, s.id) }

// Ports lists the TCP ports, ascending, that programs inside listen on, by
// IPv4 or IPv6.
func (s *Sandbox) Ports(ctx context.Context) ([]int, error) {
	if d, ok := s.driver.(PortLister); ok {
		return d.Ports(ctx, s.id)
	}
	return nil, &Error{Op: "ports", ID: s.id, Err: errors.ErrUnsupported}
}

// DialContext connects to a TCP port that a program inside listens on, also
// if only on its loopback interface; the sandbox needs no network for that.
// Network is "tcp", "tcp4" or "tcp6" and address "localhost:port" or a
// loopback address with a port. The connection has a CloseWrite method, as
// *net.TCPConn has, and is the caller's to close; it ends with the sandbox.
//
// As a DialContext of http.Transport it makes an HTTP client for the
// sandbox's servers.
func (s *Sandbox) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d, ok := s.driver.(Dialer); ok {
		return d.DialContext(ctx, s.id, network, address)
	}
	return nil, &Error{Op: "dial", ID: s.id, Err: errors.ErrUnsupported}
}
