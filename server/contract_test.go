package server_test

import (
	"testing"

	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/server"
)

// TestContract has a Remote keep what a Driver promises, over HTTP.
func TestContract(t *testing.T) {
	r, _ := remote(t, server.Config{})
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: r})
}
