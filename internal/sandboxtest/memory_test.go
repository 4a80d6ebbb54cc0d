package sandboxtest_test

import (
	"testing"

	"github.com/hanzoai/sandbox/internal/sandboxtest"
)

func TestMemory(t *testing.T) {
	m := sandboxtest.NewMemory()
	t.Cleanup(func() { m.Close() })
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: m})
}
