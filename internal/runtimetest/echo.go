package runtimetest

import (
	_ "embed"
	"strconv"
	"testing"

	"github.com/hanzoai/sandbox/sandbox"
)

//go:embed echo.py
var echo string

// Echo is a program that listens on a port inside, says "listening" and sends
// each client back what it gets, then its end. It wants python3, which image
// host has where this machine does.
func Echo(t *testing.T, sb *sandbox.Sandbox, port int) *sandbox.Cmd {
	t.Helper()
	if err := sb.Command("python3", "--version").Run(t.Context()); err != nil {
		Lacks(t, "this machine has no python3 to listen with: ", err)
	}
	return sb.Command("python3", "-c", echo, strconv.Itoa(port))
}
