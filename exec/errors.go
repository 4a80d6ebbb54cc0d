package exec

import (
	"errors"
	"fmt"

	"github.com/hanzoai/sandbox/sandbox"
)

// The sentinels of this package, for errors.Is. What is wrong with a value
// that was passed is sandbox.ErrInvalid, and of a session sandbox.ErrNotFound
// or sandbox.ErrEnded; of a file it is an error of package io/fs.
var (
	// ErrLanguage: there is no such language. It is a sandbox.ErrInvalid too.
	ErrLanguage = errors.New("unknown language")
	// ErrToolchain: the image lacks a program that the language needs. The
	// error is a *ToolchainError.
	ErrToolchain = errors.New("toolchain missing")
)

var errLanguage = errors.Join(ErrLanguage, sandbox.ErrInvalid)

// A ToolchainError says which program of a language's the image does not have.
type ToolchainError struct {
	Language string
	Program  string
}

func (e *ToolchainError) Error() string {
	return fmt.Sprintf("language %s: this image has no %s", e.Language, e.Program)
}

func (e *ToolchainError) Unwrap() error { return ErrToolchain }

// invalid makes a sandbox.ErrInvalid that says what and how to do better.
func invalid(format string, args ...any) error {
	return &wrapped{text: fmt.Sprintf(format, args...), kind: sandbox.ErrInvalid}
}

// quote shows a string that somebody chose, without all of it if it is long.
func quote(s string) string { return fmt.Sprintf("%.80q", s) }

// wrapped is a sentence of its own that is also one of the sentinels.
type wrapped struct {
	text string
	kind error
}

func (e *wrapped) Error() string { return e.text }
func (e *wrapped) Unwrap() error { return e.kind }
