// Projects works on a project over several leases: its files are on a volume
// that a pause keeps, and the end of a lease as well.
//
//	CGO_ENABLED=0 go run ./examples/projects
package main

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"strings"

	"github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	rt, err := sandbox.New(sandbox.Config{
		Events: func(e sandbox.Event) { fmt.Println("event", e.Generation, e.Kind) },
	})
	if err != nil {
		return err
	}
	defer rt.Close()

	site := sandbox.Spec{Class: sandbox.ClassDev, Project: "website"}
	sb, err := rt.Lease(ctx, site)
	if err != nil {
		return err
	}
	if err := sb.WriteFile(ctx, "index.html", strings.NewReader("<h1>draft</h1>"), 0o644); err != nil {
		return err
	}

	// A paused sandbox has its id and its files, and costs no memory. To lease
	// it by its id is to resume it.
	if err := sb.Pause(ctx); err != nil {
		return err
	}
	site.ID = sb.ID()
	again, err := rt.Lease(ctx, site)
	if err != nil {
		return err
	}
	fmt.Println("the same sandbox:", again.ID() == sb.ID())

	// A project has one sandbox at a time.
	_, err = rt.Lease(ctx, sandbox.Spec{Class: sandbox.ClassDev, Project: "website"})
	fmt.Println("a second one:", err != nil)

	// An ended sandbox is gone, and its id with it. The project goes on.
	if err := again.End(ctx); err != nil {
		return err
	}
	next, err := rt.Lease(ctx, site)
	if err != nil {
		return err
	}
	text, err := fs.ReadFile(next.FS(ctx), "index.html")
	if err != nil {
		return err
	}
	fmt.Println("a new sandbox:", next.ID() != sb.ID(), string(text))
	return next.Purge(ctx) // and now the files are gone as well
}
