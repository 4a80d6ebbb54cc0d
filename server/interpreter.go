package server

import (
	"context"
	"io"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// An Interpreter runs snippets in sessions, which are sandboxes of an owner. A
// session that the owner does not have is sandbox.ErrNotFound to all but Run
// and Put, which then open a new one. It is safe for concurrent use.
type Interpreter interface {
	// Run runs a snippet. An unknown language is sandbox.ErrInvalid.
	Run(ctx context.Context, owner sandbox.Owner, s Snippet) (*Result, error)
	// Put puts a file into a session, or, without one, into a new one.
	Put(ctx context.Context, owner sandbox.Owner, u Upload) (SessionFile, error)
	// Open opens a file by its id or its name.
	Open(ctx context.Context, owner sandbox.Owner, session, id string) (io.ReadCloser, SessionFile, error)
	// Remove removes a file.
	Remove(ctx context.Context, owner sandbox.Owner, session, id string) error
	// Files lists the files of a session.
	Files(ctx context.Context, owner sandbox.Owner, session string) ([]SessionFile, error)
}

// A Snippet is a program to run.
type Snippet struct {
	Session  string // to run in; "" opens a new one
	Language string
	Code     string
	Args     []string
	Files    []FileRef     // to put into the working directory first
	Timeout  time.Duration // 0 is the interpreter's own
}

// An Upload is a file to put into a session.
type Upload struct {
	Session  string // "" opens a new one
	Name     string // its path below the working directory
	Content  io.Reader
	ReadOnly bool // what programs do to it is dropped
}

// A FileRef names a file of a session, and where it goes.
type FileRef struct{ Session, ID, Name string }

// A Result is what a run printed and made.
type Result struct {
	Session        string
	Status         sandbox.ExitStatus
	Stdout, Stderr string
	Files          []SessionFile // made or changed
	Deleted        []string      // inputs that it removed
}

// A SessionFile is a file of a session.
type SessionFile struct {
	ID      string
	Session string
	Name    string // its path below the working directory
	Size    int64
	ModTime time.Time
}
