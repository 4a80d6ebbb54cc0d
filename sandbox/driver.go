package sandbox

import (
	"context"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"
)

// A Driver is what a Sandbox handle stands on: the local Runtime, or a client
// of one elsewhere. Users call the handle; this interface is for those who
// implement another place for sandboxes to be.
//
// All methods are safe for concurrent use, and return when ctx ends. File
// names are as for the methods of Sandbox. Package internal/sandboxtest holds
// the contract as tests.
type Driver interface {
	Info(ctx context.Context, id string) (Info, error)
	// Exec runs a program to its end, however it ends; the status has the
	// cause. An error is a *StartError, a call that failed, or, together with
	// a status, what a reader or writer of the Process returned.
	Exec(ctx context.Context, id string, p *Process) (ExitStatus, error)
	// Open opens a file for reading, or a directory.
	Open(ctx context.Context, id, name string) (fs.File, error)
	// WriteFile makes or replaces a file, and its parents.
	WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error
	End(ctx context.Context, id string) error
}

// A FileSystem is the ability of a Driver to do more with files than to read
// and write them. Without it those methods return errors.ErrUnsupported.
type FileSystem interface {
	Stat(ctx context.Context, id, name string) (fs.FileInfo, error)
	Lstat(ctx context.Context, id, name string) (fs.FileInfo, error)
	ReadLink(ctx context.Context, id, name string) (string, error)
	ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error)
	// Mkdir makes a directory, with parents also those above it.
	Mkdir(ctx context.Context, id, name string, perm fs.FileMode, parents bool) error
	// Remove removes a file or an empty directory, with tree all below it.
	Remove(ctx context.Context, id, name string, tree bool) error
}

// A TreeLister is the ability of a Driver to list, and to track, whole trees
// of files at once. Without it a handle goes from directory to directory.
type TreeLister interface {
	// Tree is Sandbox.Tree; the options are complete.
	Tree(ctx context.Context, id string, o TreeOptions) (*Tree, error)
	// Track is Sandbox.Track.
	Track(ctx context.Context, id string, o TreeOptions) (Tracker, error)
}

// A Pauser is the ability of a Driver to stop a sandbox without losing it.
type Pauser interface {
	// Pause ends all processes inside and the engine, and keeps the files on
	// the volume. It is no error if the sandbox is parked.
	Pause(ctx context.Context, id string) error
	// Resume starts an engine on those files, under the same id, with a fresh
	// lease. It is no error if the sandbox runs. After a failure it is parked
	// as before.
	Resume(ctx context.Context, id string) error
}

// A Stager is the ability of a Driver to take files for a sandbox before it
// has an engine, and to lease one as Spec.Parked. A Driver without it answers
// errors.ErrUnsupported to such a Spec.
type Stager interface {
	Stage(ctx context.Context, id string) (Stage, error)
}

// A Renewer is the ability of a Driver to lengthen a lease.
type Renewer interface {
	// Renew makes a lease end no sooner than ttl from now, which 0 makes the
	// length that it was taken for, and returns when it ends.
	Renew(ctx context.Context, id string, ttl time.Duration) (time.Time, error)
}

// A Purger is the ability of a Driver to end a sandbox together with the
// volume of its project.
type Purger interface {
	Purge(ctx context.Context, id string) error
}

// A Dialer is the ability of a Driver to reach ports inside a sandbox.
type Dialer interface {
	DialContext(ctx context.Context, id, network, address string) (net.Conn, error)
}

// A PortLister is the ability of a Driver to tell which ports are open.
type PortLister interface {
	Ports(ctx context.Context, id string) ([]int, error)
}

// A Process is what a Driver is asked to run: a Cmd without its methods. The
// Driver does not change it.
type Process struct {
	Args   []string
	Env    []string
	Dir    string
	User   User
	Limits []Rlimit

	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Terminal *Terminal
	Signals  <-chan syscall.Signal

	Timeout   time.Duration
	WaitDelay time.Duration
}
