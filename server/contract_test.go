package server_test

import (
	"strconv"
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
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: r, Listen: pythonEcho})
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

func pythonEcho(t *testing.T, sb *sandbox.Sandbox, port int) *sandbox.Cmd {
	t.Helper()
	if err := sb.Command("python3", "--version").Run(t.Context()); err != nil {
		runtimetest.Lacks(t, "this machine has no python3 to listen with: ", err)
	}
	return sb.Command("python3", "-c", echoServer, strconv.Itoa(port))
}
