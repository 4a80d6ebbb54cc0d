package web_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// TestMain fails the run when the tests have left anything behind.
func TestMain(m *testing.M) {
	remove := runtimetest.Isolate()
	before := runtimetest.Snapshot()
	code := m.Run()
	if left := runtimetest.Left(before); len(left) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind:\n"+strings.Join(left, "\n"))
		code = 1
	}
	remove()
	os.Exit(code)
}
