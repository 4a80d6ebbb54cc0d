package runtimetest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Main is a package's TestMain: it runs the tests with a temporary folder of
// their own, and fails the run when they have left anything behind. It does
// not return.
func Main(m *testing.M) {
	remove := Isolate()
	before := Snapshot()
	code := m.Run()
	if left := Left(before); len(left) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind:\n"+strings.Join(left, "\n"))
		code = 1
	}
	remove()
	os.Exit(code)
}
