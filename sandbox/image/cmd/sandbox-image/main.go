// Command sandbox-image keeps the root file systems of sandboxes: it builds
// them from Debian's packages, fetches them from registries, and takes them
// from archives.
//
//	sandbox-image build exec
//	sandbox-image pull registry.example/org/tools:1.2
//	sandbox-image import tools.tar tools
//	sandbox-image list
//
// A program leases sandboxes on them by the store that image.Open opens.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hanzoai/sandbox/sandbox/image/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE) //nolint:forbidigo // the program's own
	c := &command.Command{Name: "sandbox-image", Stdout: os.Stdout, Stderr: os.Stderr}
	code := c.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
