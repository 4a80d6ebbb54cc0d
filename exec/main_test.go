//go:build linux

package exec_test

import (
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// TestMain fails the run when the tests have left anything behind.
func TestMain(m *testing.M) { runtimetest.Main(m) }
