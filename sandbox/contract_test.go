//go:build linux

package sandbox_test

import (
	"strconv"
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

func TestRuntimeContract(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: rt, Listen: pythonEcho})
}

func TestScopeContract(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	scope := rt.For(sandbox.Owner{Org: "hanzo", Actor: "ada"})
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: scope, Listen: pythonEcho})
}

// echoServer sends each client back what it gets, then its end.
const echoServer = `
import socketserver, sys

class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)

socketserver.ThreadingTCPServer.allow_reuse_address = True
with socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Echo) as server:
    print("listening", flush=True)
    server.serve_forever()
`

// pythonEcho listens with python3, which image host has where this machine
// does.
func pythonEcho(t *testing.T, sb *sandbox.Sandbox, port int) *sandbox.Cmd {
	t.Helper()
	if err := sb.Command("python3", "--version").Run(t.Context()); err != nil {
		runtimetest.Lacks(t, "this machine has no python3 to listen with: ", err)
	}
	return sb.Command("python3", "-c", echoServer, strconv.Itoa(port))
}
