package runtimetest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Main is a package's TestMain: it runs the tests with a temporary folder of
// their own, and fails the run when they have left anything behind: what Left
// lists, or what more do of that folder. It does not return.
func Main(m *testing.M, more ...func(dir string) []string) {
	remove := Isolate()
	before := Snapshot()
	code := m.Run()
	left := Left(before)
	for _, find := range more {
		left = append(left, find(os.TempDir())...)
	}
	if len(left) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind:\n"+strings.Join(left, "\n"))
		code = 1
	}
	remove()
	os.Exit(code)
}
