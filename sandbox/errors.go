package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
)

// The sentinels, for errors.Is. Errors of the file methods are of package
// io/fs, as for files anywhere: fs.ErrNotExist, *fs.PathError and so on.
var (
	// ErrNotFound: there is no such sandbox, or it is another owner's.
	ErrNotFound = errors.New("no such sandbox")
	// ErrEnded: the sandbox's lease has ended, by End, by Close or by time.
	ErrEnded = errors.New("sandbox has ended")
	// ErrLost: the sandbox's engine died on its own, or was killed.
	ErrLost = errors.New("sandbox lost")
	// ErrConflict: what was asked for does not fit the present state. The
	// error is a *ConflictError.
	ErrConflict = errors.New("conflict")
	// ErrCeiling: the organisation has as many sandboxes as it may. The error
	// is a *CeilingError.
	ErrCeiling = errors.New("too many sandboxes")
	// ErrInvalid: a value that was passed cannot be right.
	ErrInvalid = errors.New("invalid")
	// ErrTimeout: a limit on time that was asked for has passed.
	ErrTimeout = errors.New("timed out")
	// ErrClosed: the Runtime has been closed.
	ErrClosed = errors.New("runtime closed")
	// ErrInUse: another Runtime holds the Root.
	ErrInUse = errors.New("root is in use")
	// ErrUnavailable: this machine or program cannot run sandboxes.
	ErrUnavailable = errors.New("sandboxes cannot run here")
)

// errDetached ends what runs when a Runtime lets go of its sandboxes.
var errDetached = &wrapped{text: "runtime detached", kind: ErrClosed}

// A ConflictError says which sandbox stands in the way of what was asked, and
// its status.
type ConflictError struct {
	ID     string
	Status Status
	Why    string // what does not fit, and the remedy
}

func (e *ConflictError) Error() string { return e.Why }

func (e *ConflictError) Unwrap() error { return ErrConflict }

// notNow is the conflict of an operation with a sandbox's status.
func notNow(id string, now Status) error {
	remedy := "wait until it runs"
	switch now { //nolint:exhaustive // the others are on their way somewhere
	case StatusParked:
		remedy = "resume it first"
	case StatusError:
		remedy = "lease a new one"
	}
	return &ConflictError{ID: id, Status: now, Why: fmt.Sprintf("sandbox is %s: %s", now, remedy)}
}

// A CeilingError says how many sandboxes of a class an organisation has that
// are pending or running, and how many it may have.
type CeilingError struct {
	Org     string
	Class   string
	Live    int
	Ceiling int
}

func (e *CeilingError) Error() string {
	return fmt.Sprintf("%d sandboxes of class %s, of at most %d: end or pause one, or come back to it by its ID", e.Live, e.Class, e.Ceiling)
}

func (e *CeilingError) Unwrap() error { return ErrCeiling }

// An Error is a call that failed, as opposed to a program that did.
type Error struct {
	Op  string // the method, in lower case: lease, end, dial
	ID  string // the sandbox, if there is one
	Err error
}

func (e *Error) Error() string {
	if e.ID == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + " " + e.ID + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// invalid makes an ErrInvalid that says what and how to do better.
func invalid(format string, args ...any) error {
	return &wrapped{text: fmt.Sprintf(format, args...), kind: ErrInvalid}
}

// invalidName is an invalid file name, in the terms of package io/fs too.
func invalidName(op, name string, why error) error {
	return &fs.PathError{Op: op, Path: name, Err: &wrapped{text: why.Error(), kind: errors.Join(ErrInvalid, fs.ErrInvalid)}}
}

// wrapped is a sentence of its own that is also one of the sentinels.
type wrapped struct {
	text string
	kind error
}

func (w *wrapped) Error() string { return w.text }
func (w *wrapped) Unwrap() error { return w.kind }
