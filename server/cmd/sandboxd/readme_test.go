package main

import (
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// TestReadmeLines runs the README's lines for a server as they stand there,
// but for the address.
func TestReadmeLines(t *testing.T) {
	is := is.New(t)
	for _, program := range []string{"curl", "jq", "python3"} {
		if _, err := osexec.LookPath(program); err != nil {
			runtimetest.Lacks(t, err)
		}
	}
	const readme = "../../../README.md"
	b, err := os.ReadFile(readme)
	is.NoErr(err)
	_, rest, found := strings.Cut(string(b), "<!-- The test of sandboxd runs these lines. -->\n```sh\n")
	is.True(found)
	lines, _, found := strings.Cut(rest, "```\n")
	is.True(found)
	is.Equal(strings.Count(lines, "127.0.0.1:8080"), 1)

	const key = "sk-a-key-of-the-readme"
	p := startDaemon(t, t.TempDir(), "SANDBOXD_KEY="+key)
	cmd := osexec.CommandContext(t.Context(), "bash", "-eu", "-c", strings.Replace(lines, "http://127.0.0.1:8080", p.url, 1))
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), "KEY="+key)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		`"stdout":"42\n"`, `Python 3`, `"path":"/work/docs/README.md"`, "# sandbox\n",
		`{"type":"stdout","data":"3\n"}`, `{"type":"exit","exitCode":0,"cause":"exit"}`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %s:\n%s", want, out)
		}
	}
	is.True(!strings.Contains(string(out), `"status":4`)) // nothing was refused
	endAll(t, p, key)
	is.NoErr(p.stop(t))
}
