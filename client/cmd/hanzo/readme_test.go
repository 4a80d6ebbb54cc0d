//go:build linux

package main

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// TestReadmeLines runs the README's lines as they stand there.
func TestReadmeLines(t *testing.T) {
	is := is.New(t)
	for _, program := range []string{"python3", "tar"} {
		if _, err := osexec.LookPath(program); err != nil {
			runtimetest.Lacks(t, err)
		}
	}
	const top = "../../.."
	b, err := os.ReadFile(filepath.Join(top, "README.md"))
	is.NoErr(err)
	_, rest, found := strings.Cut(string(b), "<!-- The test of hanzo runs these lines. -->\n```sh\n")
	is.True(found)
	lines, _, found := strings.Cut(rest, "```\n")
	is.True(found)

	bin, config := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	is.NoErr(err)
	is.NoErr(os.Symlink(self, filepath.Join(bin, "hanzo")))
	url, known := newServer(t)
	cmd := osexec.CommandContext(t.Context(), "bash", "-eu", "-c", lines)
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "KEY="+known.add("acme"), "HANZO_API_KEY=", "HANZO_BASE_URL="+url,
		"XDG_CONFIG_HOME="+config, "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"stored the key for " + url, `"stdout": "42\n"`, "quickstart\n", "# sandbox\n", "it ended with 3\n", "website",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
}
