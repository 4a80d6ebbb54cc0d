//go:build linux

package sandbox_test

import (
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

func TestRuntimeContract(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: rt, Listen: runtimetest.Echo})
}

func TestScopeContract(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	scope := rt.For(sandbox.Owner{Org: "hanzo", Actor: "ada"})
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: scope, Listen: runtimetest.Echo})
}
