package image_test

import (
	osexec "os/exec"
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// TestMain fails the run when the tests have left anything behind.
func TestMain(m *testing.M) { runtimetest.Main(m) }

// run runs a program of the machine.
func run(t testing.TB, command ...string) {
	t.Helper()
	if out, err := osexec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}
