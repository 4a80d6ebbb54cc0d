//go:build linux

package exec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

func TestLanguageSetIsClosed(t *testing.T) {
	is := is.New(t)
	var names []string
	for _, l := range exec.Languages() {
		names = append(names, l.Name)
		_, ok := matrix[l.Name]
		is.True(ok) // it is tested
	}
	is.Equal(strings.Join(names, " "), "py js ts bash r php go rs c cpp java d f90")
	is.Equal(len(matrix), len(names))
}

func TestLanguageRows(t *testing.T) {
	m := sandboxtest.NewMemory()
	t.Cleanup(func() { m.Close() })
	ok := exec.Language{Name: "x", File: "main.x", Run: []string{"sh", "{src}"}}
	for name, change := range map[string]func(*exec.Language){
		"no name":       func(l *exec.Language) { l.Name = "" },
		"name of two":   func(l *exec.Language) { l.Name = "a b" },
		"path as name":  func(l *exec.Language) { l.Name = "../x" },
		"no file":       func(l *exec.Language) { l.File = "" },
		"path as file":  func(l *exec.Language) { l.File = "../main.x" },
		"hidden file":   func(l *exec.Language) { l.File = ".x" },
		"nothing to do": func(l *exec.Language) { l.Run = nil },
	} {
		l := ok
		change(&l)
		if _, err := exec.New(m, exec.Config{Languages: []exec.Language{l}}); !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	is := is.New(t)
	_, err := exec.New(nil, exec.Config{})
	is.True(errors.Is(err, sandbox.ErrInvalid))
	_, err = exec.New(m, exec.Config{MaxOutput: -1})
	is.True(errors.Is(err, sandbox.ErrInvalid))

	// A row of the caller's takes the place of ours, and args follow its own.
	it, err := exec.New(m, exec.Config{Languages: []exec.Language{{
		Name: "PY", File: "main.py", Build: []string{"echo", "building"}, Run: []string{"sh", "-c", "cat $1; echo $2", "sh", "{src}"}, Env: []string{"DIR={dir}"},
	}}})
	is.NoErr(err)
	res, err := it.Run(t.Context(), exec.Snippet{Language: "py", Code: "the program\n", Args: []string{"an argument"}})
	is.NoErr(err)
	plain(t, res, "the program\nan argument\n")
}
