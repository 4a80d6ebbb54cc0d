// Package examples_test runs the example programs as a newcomer would.
package examples_test

import (
	"bytes"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// run builds and runs an example.
func run(t *testing.T, name, stdin string, args ...string) string {
	t.Helper()
	runtimetest.New(t, sandbox.Config{}) // skips where no engine can run
	program := filepath.Join(t.TempDir(), name)
	build := osexec.Command("go", "build", "-o", program, "./"+name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := osexec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	return string(out)
}

func TestQuickstart(t *testing.T) {
	is := is.New(t)
	lines := strings.Split(run(t, "quickstart", ""), "\n")
	is.Equal(len(lines), 4)
	is.True(strings.HasPrefix(lines[0], "hello from ") && strings.HasSuffix(lines[0], " 42"))
	is.Equal(lines[1], "kept in the sandbox")
	is.True(strings.HasSuffix(lines[2], "-gvisor")) // where it ran
}

func TestFiles(t *testing.T) {
	is := is.New(t)
	is.Equal(run(t, "files", ""), strings.TrimLeft(`
-rw-r--r--   44 poems/spring.txt
-rw-r--r--   42 poems/winter.txt
-rw-r--r--   86 sorted.txt
`, "\n"))
}

func TestWeb(t *testing.T) {
	if _, err := osexec.LookPath("/usr/bin/python3"); err != nil {
		runtimetest.Lacks(t, "the example serves with Python, which this machine has not")
	}
	is := is.New(t)
	is.Equal(run(t, "web", ""), "200 OK\n<h1>served from inside</h1>\n")
}

func TestTerminal(t *testing.T) {
	is := is.New(t)
	out := run(t, "terminal", "stty size; tty; exit\n")
	is.True(strings.Contains(out, "24 80\r\n/dev/pts/0\r\n"))
}

func TestProjects(t *testing.T) {
	is := is.New(t)
	is.Equal(run(t, "projects", ""), strings.TrimLeft(`
event 1 leased
event 2 running
event 3 paused
event 4 resumed
the same sandbox: true
a second one: true
event 5 ended
event 1 leased
event 2 running
a new sandbox: true <h1>draft</h1>
event 3 ended
`, "\n"))
}

func TestImage(t *testing.T) {
	is := is.New(t)
	is.Equal(run(t, "image", "", "-dir", filepath.Join(t.TempDir(), "store"), "host", "sh", "-c", "echo $0 $((6 * 7))", "it is"), "it is 42\n")
}

func TestInterpreter(t *testing.T) {
	if _, err := osexec.LookPath("/usr/bin/python3"); err != nil {
		runtimetest.Lacks(t, "the example is in Python, which this machine has not")
	}
	is := is.New(t)
	dir := t.TempDir()
	lines := strings.Split(run(t, "interpreter", "", dir), "\n")
	is.Equal(len(lines), 7)
	is.Equal(lines[:3], []string{"100 points", "made wave.csv", "drawn from 100 points"})
	is.True(strings.HasPrefix(lines[3], "made plot_1."))
	is.Equal(lines[4], "same session: true")
	is.True(strings.HasPrefix(lines[5], "downloaded true plot_1."))
	list, err := os.ReadDir(dir)
	is.NoErr(err)
	is.Equal(len(list), 1)
}
