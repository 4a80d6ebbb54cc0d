package exec

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A Snippet is a program to run.
type Snippet struct {
	// Session is where to run it. If there is none of that id, or no longer,
	// it runs in a fresh one. Without an id it runs in the session that most
	// of its Inputs live in, the first of equals, or in a fresh one if they
	// live nowhere any more. Read-only inputs do not count.
	Session string

	// Language is the name of one that the Interpreter has, in any case.
	Language string

	// Code is the whole program.
	Code string

	// Args are what the program is given, as they are. No compiler sees them.
	Args []string

	// Inputs are the files that the program is to find.
	Inputs []Input

	// Stdin is what the program reads; nil is an end of file at once.
	Stdin io.Reader

	// Stdout and Stderr, if not nil, get what the Result will have, in full
	// and as it comes. A writer that blocks makes the program wait, but not
	// Run, once the program's time is up: then a Write may still be under way
	// when it returns. One that fails gets no more, and the program goes on.
	Stdout, Stderr io.Writer

	// Timeout is how long the program may take, with its build; 0 is
	// Config.Timeout.
	Timeout time.Duration
}

// An Input is a file of some session that a program is to find.
type Input struct {
	// Session is where the file is; "" is where the program runs.
	Session string
	// File is the file's id, or its path there.
	File string
	// Name is the path, in the working directory, at which the program finds
	// it; "" is its path in its own session. Of inputs with one name the last
	// counts.
	Name string
	// ReadOnly drops what the program does to the file: it is neither
	// reported nor kept. A file that was uploaded as read-only is so anyway.
	ReadOnly bool
}

// A Result is what became of a Snippet.
type Result struct {
	// Session is where it ran.
	Session string

	// ExitStatus is how the program ended, or its build, if that failed.
	sandbox.ExitStatus

	// Stdout and Stderr are what the program printed, byte for byte, up to
	// Config.MaxOutput each; of a build that failed all is in Stderr. Lines
	// that begin with "exec: " are the interpreter's own, in Stderr only: for
	// each input that is missing, before the program's, and one on what cut
	// the program short, after it. Of a run of which there is nothing to say,
	// Stderr is the program's alone.
	Stdout, Stderr string

	// Files are the regular files that the program made or changed, in the
	// order of their paths.
	Files []File

	// Deleted are the names of inputs that the program removed.
	Deleted []string

	// Missing are the names of inputs that could not be carried in.
	Missing []string

	// Omitted are the files that a limit left out of Files.
	Omitted Omitted
}

// A File is a regular file of a session.
type File struct {
	ID      string // as FileID says
	Session string
	Path    string // relative to the working directory
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
	// Hash is the SHA-256 of its content, in hexadecimal. In a listing it is
	// "" where it would take reading the file to know.
	Hash string
	// ReadOnly files were uploaded as such.
	ReadOnly bool
}

// check refuses what cannot be run, before anything is leased for it.
func (s *Snippet) check() error {
	switch {
	case strings.TrimSpace(s.Code) == "":
		return invalid("the program is empty")
	case strings.ContainsRune(s.Code, 0):
		return invalid("the program has a NUL byte")
	case s.Timeout < 0:
		return invalid("a negative timeout")
	}
	for _, arg := range s.Args {
		if strings.ContainsRune(arg, 0) {
			return invalid("argument %s has a NUL byte, which no program can be given", quote(arg))
		}
	}
	for _, in := range s.Inputs {
		if in.File == "" {
			return invalid("an input without a File")
		}
		if in.Name == "" || path.IsAbs(in.Name) {
			continue // that is known once the session is
		}
		if _, err := cleanName(in.Name, ""); err != nil {
			return err
		}
	}
	return nil
}
