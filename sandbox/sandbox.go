package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"time"
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

// Purge ends the lease, as End does, and deletes the volume of its project as
// well.
func (s *Sandbox) Purge(ctx context.Context) error {
	if d, ok := s.driver.(Purger); ok {
		return d.Purge(ctx, s.id)
	}
	return s.missing("purge")
}

// Pause ends the processes in the sandbox and gives its memory back. What is
// in the working directory stays, which takes a volume: a Project or a Disk in
// the Spec. Everything else inside is lost. A paused sandbox has no end, and
// is not counted against Class.Ceiling. Pausing it twice is no error.
func (s *Sandbox) Pause(ctx context.Context) error {
	if d, ok := s.driver.(Pauser); ok {
		return d.Pause(ctx, s.id)
	}
	return s.missing("pause")
}

// Resume lets a paused sandbox run again, with the same ID and files and a
// fresh lease of its class's length. A sandbox that runs is left as it is.
func (s *Sandbox) Resume(ctx context.Context) error {
	if d, ok := s.driver.(Pauser); ok {
		return d.Resume(ctx, s.id)
	}
	return s.missing("resume")
}

// A Stage is the files of a sandbox that has never run, before it does: see
// Spec.Parked. Names are relative to its workdir, or absolute and within it.
// It is safe for concurrent use.
//
// The sandbox may be resumed while a Stage is open; what it has written by
// then, and afterwards, is there.
type Stage interface {
	fs.StatFS
	// Tree is Sandbox.Tree.
	Tree(ctx context.Context, o TreeOptions) (*Tree, error)
	// WriteFile is Sandbox.WriteFile.
	WriteFile(ctx context.Context, name string, src io.Reader, perm fs.FileMode) error
	Close() error
}

// Stage opens the files of a sandbox that was leased as Spec.Parked and has not
// run yet. Of any other it is a *ConflictError: its files belong to what ran
// there, and are opened inside.
func (s *Sandbox) Stage(ctx context.Context) (Stage, error) {
	if d, ok := s.driver.(Stager); ok {
		return d.Stage(ctx, s.id)
	}
	return nil, s.missing("stage")
}

// Renew makes the lease end no sooner than ttl from now, which 0 makes the
// length that it was taken for. It never shortens the lease, and never makes
// it longer than Config.MaxLife. It returns the end.
func (s *Sandbox) Renew(ctx context.Context, ttl time.Duration) (time.Time, error) {
	if d, ok := s.driver.(Renewer); ok {
		return d.Renew(ctx, s.id, ttl)
	}
	return time.Time{}, s.missing("renew")
}

func (s *Sandbox) missing(op string) error {
	return &Error{Op: op, ID: s.id, Err: errors.ErrUnsupported}
}

// Ports lists the TCP ports, ascending, that programs inside listen on, by
// IPv4 or IPv6.
func (s *Sandbox) Ports(ctx context.Context) ([]int, error) {
	if d, ok := s.driver.(PortLister); ok {
		return d.Ports(ctx, s.id)
	}
	return nil, s.missing("ports")
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
	return nil, s.missing("dial")
}
