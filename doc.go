// Package sandbox is the front door of a module that runs somebody else's
// code in gVisor sandboxes, from a Go program, with nothing else installed: no
// Docker, no KVM, no cgo, no second download. It holds no code itself.
//
// # A sandbox in ten lines
//
//	import (
//		"github.com/hanzoai/sandbox/sandbox"
//		_ "github.com/hanzoai/sandbox/sandbox/runsc" // carries gVisor in this binary
//	)
//
//	rt, err := sandbox.New(sandbox.Config{})
//	...
//	defer rt.Close()
//	sb, err := rt.Lease(ctx, sandbox.Spec{})
//	...
//	out, err := sb.Command("python3", "-c", "print(6 * 7)").Output(ctx)
//
// Build with CGO_ENABLED=0 and run as root. The first build compiles gVisor,
// which takes about two minutes.
//
// # Where to go from here
//
// Package [github.com/hanzoai/sandbox/sandbox] has it all: a Runtime leases
// sandboxes, a Sandbox runs commands, holds files as an fs.FS and is dialled
// like a host. Package [github.com/hanzoai/sandbox/sandbox/runsc] is the
// embedded engine, and package [github.com/hanzoai/sandbox/sandbox/image] has
// images other than this machine's own. The programs under examples show both at work.
//
// # How it is made
//
// A sandbox is gVisor's runsc with an OCI bundle. The executable that imports
// this module is three programs: itself; runsc, when it is started under that
// name on the host; and the init inside each sandbox, to which the Runtime
// speaks over a unix socket. Commands run as an unprivileged user, each in a
// cgroup of its own inside the sandbox, so that ending one ends all that it
// started. Files are opened inside, so that no link leads out.
//
// # What it does not do
//
// It gives sandboxes no network, in this version: programs inside have a
// loopback interface, whose ports can be dialled from outside. It runs on
// Linux, amd64 and arm64, of which amd64 is tested, and needs root. What
// reaches sandboxes on a server builds on other systems too.
package sandbox
