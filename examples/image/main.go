// Image runs a command in a sandbox on an image: one that sandbox-image built
// or imported, or one in a registry.
//
//	CGO_ENABLED=0 go run ./sandbox/image/cmd/sandbox-image build exec
//	CGO_ENABLED=0 go run ./examples/image exec rustc --version
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
	_ "github.com/hanzoai/sandbox/sandbox/runsc" // carries gVisor in this binary
)

func main() {
	dir := flag.String("dir", image.DefaultDir, "the store's `folder`")
	registry := flag.String("registry", "", "the `host` of a registry that images may come from")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage: image [flags] IMAGE COMMAND [ARGUMENT...]")
	}
	if err := run(context.Background(), *dir, *registry, flag.Arg(0), flag.Args()[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir, registry, name string, args []string) error {
	cfg := image.Config{Dir: dir}
	if registry != "" {
		cfg.Registries = []image.Registry{{Host: registry, Login: true}}
	}
	store, err := image.Open(cfg)
	if err != nil {
		return err
	}
	rt, err := sandbox.New(sandbox.Config{Images: store})
	if err != nil {
		return err
	}
	defer rt.Close()

	sb, err := rt.Lease(ctx, sandbox.Spec{Image: name})
	if err != nil {
		return err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "image", info.Image, info.Digest)

	cmd := sb.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run(ctx)
}
