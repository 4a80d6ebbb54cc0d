package exec

import (
	"context"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// Sandboxes are where an Interpreter has its sandboxes from. A
// *sandbox.Runtime and a *sandbox.Scope are.
type Sandboxes interface {
	Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error)
	Attach(ctx context.Context, id string) (*sandbox.Sandbox, error)
}

// Config says how an Interpreter works. Its zero value is usable.
type Config struct {
	// Spec is what is leased for a session. Its ID and Parked mean nothing.
	Spec sandbox.Spec

	// Languages are added to the built-in ones, or replace those of the same
	// names.
	Languages []Language

	// Timeout is the longest that a program may take, with its build, if the
	// Snippet does not say; 0 is one minute.
	Timeout time.Duration

	// MaxOutput is how many bytes of each of standard output and standard
	// error a Result has: of more it has the head and the tail, with a line
	// between that says how much was left out. 0 is 1 MiB.
	MaxOutput int

	// Limits bound what of a session's files is looked at and reported.
	Limits Limits
}

// Limits bound what a session's files cost. Zero values are defaults.
type Limits struct {
	Files    int   // that a run reports; 0 is 50
	FileSize int64 // of a file that a run reports, in bytes; 0 is 512 MiB
	Total    int64 // bytes, after which no more of a run's files are read; 0 is 4 GiB
	Depth    int   // of folders below the working directory; 0 is 10
	Path     int   // bytes in a file's name with its folders; 0 is 256
	Entries  int   // files and folders that are looked at in all; 0 is 20,000
}

const (
	defaultTimeout   = time.Minute
	defaultMaxOutput = 1 << 20
)

// An Interpreter runs snippets in sandboxes. It keeps nothing: each session is
// a sandbox.
type Interpreter struct {
	sandboxes Sandboxes
	cfg       Config
	languages map[string]Language
	names     []string // of the languages, in order
	runs      *turns   // of sessions
	records   *turns   // of their records
}

// New returns an Interpreter over sandboxes.
func New(sandboxes Sandboxes, cfg Config) (*Interpreter, error) {
	if sandboxes == nil {
		return nil, invalid("an interpreter needs Sandboxes, as a sandbox.Runtime")
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	languages, names, err := languageTable(cfg.Languages)
	if err != nil {
		return nil, err
	}
	return &Interpreter{
		sandboxes: sandboxes, cfg: cfg, languages: languages, names: names,
		runs: newTurns(), records: newTurns(),
	}, nil
}

// With returns the same Interpreter over other sandboxes, as the Scope of one
// owner: runs in one session take turns by whichever of the two they come. It
// costs nothing.
func (it *Interpreter) With(sandboxes Sandboxes) *Interpreter {
	other := *it
	other.sandboxes = sandboxes
	return &other
}

func (c *Config) complete() error {
	l := &c.Limits
	for _, n := range []int64{
		int64(c.Timeout), int64(c.MaxOutput),
		int64(l.Files), l.FileSize, l.Total, int64(l.Depth), int64(l.Path), int64(l.Entries),
	} {
		if n < 0 {
			return invalid("a negative limit")
		}
	}
	c.Spec.ID, c.Spec.Parked = "", false
	orDefault(&c.Timeout, defaultTimeout)
	orDefault(&c.MaxOutput, defaultMaxOutput)
	orDefault(&l.Files, 50)
	orDefault(&l.FileSize, 512<<20)
	orDefault(&l.Total, 4<<30)
	orDefault(&l.Depth, 10)
	orDefault(&l.Path, 256)
	orDefault(&l.Entries, 20_000)
	return nil
}

func orDefault[T comparable](at *T, value T) {
	var zero T
	if *at == zero {
		*at = value
	}
}
