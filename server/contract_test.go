package server_test

import (
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// TestContract has a Remote keep what a Driver promises, over HTTP.
func TestContract(t *testing.T) {
	r, _ := remote(t, server.Config{})
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: r})
}

// TestRuntimeContract is the same with the engine behind it.
func TestRuntimeContract(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	r, _ := remote(t, server.Config{Sandboxes: server.Runtime(rt)})
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: r, Listen: runtimetest.Echo})
}
