//go:build linux

package exec_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// makeFiles makes files in a folder d of a sandbox.
func makeFiles(t testing.TB, sb *sandbox.Sandbox, n int) {
	t.Helper()
	code := fmt.Sprintf("import os\nos.mkdir('d')\nfor i in range(%d): os.mknod(f'd/{i}')", n)
	if err := sb.Command("python3", "-c", code).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A hundred thousand files in one folder do not hold up a program that has
// nothing to do with them: no more of them than Limits.Entries is looked at.
func TestHundredThousandFiles(t *testing.T) {
	is := is.New(t)
	if testing.Short() {
		t.Skip("it makes a hundred thousand files")
	}
	rt := runtimetest.New(t, sandbox.Config{})
	l := newLab(t, rt, exec.Config{Limits: exec.Limits{Entries: 2000}})
	sb := l.sandboxTest(t)
	makeFiles(t, sb, 100_000)
	start := time.Now()
	res := l.sh(t, sb.ID(), "echo hello; echo x > new.txt")
	took := time.Since(start)
	t.Log("a run took ", took)
	is.Equal(res.Stdout, "hello\n")
	is.Equal(paths(res), "new.txt") // what is above is seen first
	is.Equal(fmt.Sprint(res.Omitted), "{1 [{d entries}]}")

	l = newLab(t, rt, exec.Config{Limits: exec.Limits{Entries: 200_000}})
	start = time.Now()
	is.Equal(paths(l.sh(t, sb.ID(), "echo y > d/new.txt")), "d/new.txt") // it is found by who looks
	all := time.Since(start)
	t.Log("one that looks at all took ", all)
	is.True(took < all/4)
}
