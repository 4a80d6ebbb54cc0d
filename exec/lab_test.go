//go:build linux

package exec_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

// A lab is an Interpreter and where its sandboxes are, for tests of both.
type lab struct {
	*exec.Interpreter
	sandboxes sandboxtest.Sandboxes
}

// shell is a language that every driver's sandboxes have, also those in
// memory.
var shell = exec.Language{Name: "sh", File: "main.sh", Script: true, Run: []string{"sh", "{src}"}}

func newLab(t testing.TB, sandboxes sandboxtest.Sandboxes, cfg exec.Config) lab {
	t.Helper()
	cfg.Languages = append(cfg.Languages, shell)
	it, err := exec.New(sandboxes, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return lab{it, sandboxes}
}

// limit is how long a step may take that should take a moment.
const limit = 60 * time.Second

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// run runs a snippet. Its session ends with the test.
func (l lab) run(t testing.TB, s exec.Snippet) *exec.Result {
	t.Helper()
	if s.Language == "" {
		s.Language = "sh"
	}
	res, err := l.Run(bounded(t), s)
	if err != nil {
		t.Fatal(err)
	}
	l.endLater(t, res.Session)
	return res
}

// sh runs a script in a session.
func (l lab) sh(t testing.TB, session, code string, inputs ...exec.Input) *exec.Result {
	t.Helper()
	return l.run(t, exec.Snippet{Session: session, Code: code, Inputs: inputs})
}

func (l lab) upload(t testing.TB, session, name, content string) exec.File {
	t.Helper()
	f, err := l.Upload(bounded(t), exec.Upload{Session: session, Name: name, Content: strings.NewReader(content)})
	if err != nil {
		t.Fatal(err)
	}
	l.endLater(t, f.Session)
	return f
}

func (l lab) endLater(t testing.TB, session string) {
	t.Cleanup(func() {
		err := l.sandboxes.End(context.Background(), session)
		if err != nil && !errors.Is(err, sandbox.ErrEnded) && !errors.Is(err, sandbox.ErrNotFound) {
			t.Error(err)
		}
	})
}

// read downloads a file whole.
func (l lab) read(t testing.TB, session, file string) string {
	t.Helper()
	f, _, err := l.Open(bounded(t), session, file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// list is the paths of a session's files.
func (l lab) list(t testing.TB, session string) []string {
	t.Helper()
	paths := []string{}
	for f, err := range l.Files(bounded(t), session) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, f.Path)
	}
	return paths
}

// paths are those of a result's files.
func paths(res *exec.Result) string {
	list := make([]string, len(res.Files))
	for i, f := range res.Files {
		list[i] = f.Path
	}
	return strings.Join(list, " ")
}

// input names a file as an input.
func input(f exec.File) exec.Input { return exec.Input{Session: f.Session, File: f.ID} }

// plain checks that a run has printed just that, and is not commented on.
func plain(t *testing.T, res *exec.Result, stdout string) {
	t.Helper()
	is := is.New(t)
	is.Equal(res.Stdout, stdout)
	is.Equal(res.Stderr, "")
	is.True(res.Success())
	is.Equal(len(res.Missing), 0)
}
