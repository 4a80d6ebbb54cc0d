package server_test

import (
	"io"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// TestInterpreterOnRemote has the code interpreter stand on a server as it
// stands on a Runtime.
func TestInterpreterOnRemote(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	r, _ := remote(t, server.Config{Sandboxes: server.Runtime(rt)})
	it, err := exec.New(r, exec.Config{})
	is.NoErr(err)
	file, err := it.Upload(t.Context(), exec.Upload{Name: "in.txt", Content: strings.NewReader("in")})
	is.NoErr(err)
	result, err := it.Run(t.Context(), exec.Snippet{
		Session: file.Session, Language: "bash", Code: "cat in.txt; echo out > out.txt; echo err >&2; exit 3",
	})
	is.NoErr(err)
	is.Equal(result.Session, file.Session)
	is.Equal(result.Stdout, "in")
	is.Equal(result.Code, 3)
	is.True(strings.HasPrefix(result.Stderr, "err\n"))
	is.Equal(len(result.Files), 1)
	is.Equal(result.Files[0].Path, "out.txt")
	f, _, err := it.Open(t.Context(), result.Session, result.Files[0].ID)
	is.NoErr(err)
	b, err := io.ReadAll(f)
	is.NoErr(err)
	is.NoErr(f.Close())
	is.Equal(string(b), "out\n")
}
