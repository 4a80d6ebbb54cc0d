//go:build linux

package sandbox_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// update makes the test write what it would otherwise compare.
const update = "SANDBOX_UPDATE"

const (
	tableBegin = "<!-- Runtime.Enforcement, written by the test of that name -->\n"
	tableEnd   = "<!-- end -->\n"
)

// TestReadmeTellsEnforcement compares the README's table with what a Runtime
// says of this machine. SANDBOX_UPDATE=1 writes it.
func TestReadmeTellsEnforcement(t *testing.T) {
	is := is.New(t)
	var table strings.Builder
	table.WriteString("| limit | enforced | how |\n|---|---|---|\n")
	for _, e := range runtimetest.New(t, sandbox.Config{}).Enforcement() {
		answer, how := "yes", e.By
		if !e.Enforced {
			answer, how = "no", e.Reason
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", e.Limit, answer, how)
	}
	const readme = "../README.md"
	b, err := os.ReadFile(readme)
	is.NoErr(err)
	before, rest, found := strings.Cut(string(b), tableBegin)
	is.True(found)
	now, after, found := strings.Cut(rest, tableEnd)
	is.True(found)
	if os.Getenv(update) != "" {
		is.NoErr(os.WriteFile(readme, []byte(before+tableBegin+table.String()+tableEnd+after), 0o644))
		return
	}
	is.Equal(now, table.String())
}
