package problem

import (
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/linux"
	"github.com/hanzoai/sandbox/sandbox"
)

// An Error is a problem as an error. Of one that was received, errors.Is
// matches what its code stands for.
type Error struct{ Details }

func (e *Error) Error() string {
	switch {
	case e.Detail != "":
		return e.Detail
	case e.Code != "":
		return e.Code
	}
	return e.Title
}

// Unwrap returns the sentinel of the code and the system's error.
func (e *Error) Unwrap() []error {
	var list []error
	if k := byCode(e.Code); k != nil && k.sentinel != nil {
		list = append(list, k.sentinel)
	}
	if errno := linux.LocalErrno(linux.ErrnoNamed(e.Errno)); errno != 0 {
		list = append(list, errno)
	}
	return list
}

// New returns a problem of the server's own. Its detail is a Brief one.
func New(code, detail string) *Error {
	e := &Error{Details{Type: "about:blank", Code: code, Detail: Brief(detail)}}
	e.setStatus()
	return e
}

// briefHead and briefTail are what is kept of a sentence that is too long.
const briefHead, briefTail = 250, 150

// Brief cuts the middle out of a sentence that repeats more of what a caller
// sent than a reader wants: it begins with what was asked for and ends with
// what is wrong.
func Brief(sentence string) string {
	if len(sentence) <= briefHead+briefTail {
		return sentence
	}
	// A rune that is cut is no UTF-8, and so is dropped.
	return strings.ToValidUTF8(sentence[:briefHead], "") + "…" + strings.ToValidUTF8(sentence[len(sentence)-briefTail:], "")
}

// setStatus sets the status that goes with the code.
func (e *Error) setStatus() {
	e.Status = http.StatusInternalServerError
	if k := byCode(e.Code); k != nil {
		e.Status = k.status
	}
	e.Title = http.StatusText(e.Status)
}

// Of says an error as a problem, and whether it is one that may be said: any
// other is the server's own business, and becomes Internal without a word.
func Of(err error) (*Error, bool) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e, true
	}
	k := kindOf(err)
	if k == nil {
		return New(Internal, "the server failed; its log says why"), false
	}
	e := New(k.code, sentence(err))
	e.fill(err)
	return e, true
}

// sentence is what an error says, without the operation and the id, which a
// caller knows: an unknown id and one of another owner's read the same.
func sentence(err error) string {
	if e, ok := err.(*sandbox.Error); ok { //nolint:errorlint // the outermost alone
		return sentence(e.Err)
	}
	return err.Error()
}

// kindOf finds an error's row. The terms of io/fs count only for files inside
// a sandbox: elsewhere they are of files of the server's own.
func kindOf(err error) *kind {
	_, ofFile := errors.AsType[*fs.PathError](err)
	_, ofProgram := errors.AsType[*sandbox.StartError](err)
	for i := range kinds {
		k := &kinds[i]
		if k.ofFiles() && !ofFile && !ofProgram {
			continue
		}
		if k.matches(err) {
			return k
		}
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok && ofFile {
		return byCode(FileError)
	}
	return nil
}

func (k *kind) ofFiles() bool {
	return slices.Contains([]error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission}, k.sentinel)
}

// fill adds what the error knows beyond its kind.
func (e *Error) fill(err error) {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		e.Errno = linux.ErrnoName(linux.Errno(errno))
	}
	if c, ok := errors.AsType[*sandbox.ConflictError](err); ok {
		e.ID, e.SandboxStatus = c.ID, string(c.Status)
	}
	if c, ok := errors.AsType[*sandbox.CeilingError](err); ok {
		e.Org, e.Class, e.Live, e.Ceiling = c.Org, c.Class, c.Live, c.Ceiling
	}
	if e.Code == "unsupported_capability" {
		e.Details.Error = e.Code
	}
}

// Sentinel returns the error that a problem tells of, in the terms of package
// sandbox where it has a type for it.
func (e *Error) Sentinel() error {
	switch k := byCode(e.Code); {
	case k == nil:
		return e
	case k.sentinel == sandbox.ErrConflict: //nolint:errorlint // the row itself
		return &sandbox.ConflictError{ID: e.ID, Status: sandbox.Status(e.SandboxStatus), Why: e.Detail}
	case k.sentinel == sandbox.ErrCeiling: //nolint:errorlint // the row itself
		return &sandbox.CeilingError{Org: e.Org, Class: e.Class, Live: e.Live, Ceiling: e.Ceiling}
	}
	return e
}
