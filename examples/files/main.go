// Files copies a folder into a sandbox, lets a program work on it, and walks
// over what is there afterwards with package io/fs.
//
//	CGO_ENABLED=0 go run ./examples/files
package main

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"testing/fstest"

	"github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	rt, err := sandbox.New(sandbox.Config{})
	if err != nil {
		return err
	}
	defer rt.Close()
	sb, err := rt.Lease(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}

	// Any fs.FS will do: os.DirFS of a folder, an embed.FS, a zip.Reader.
	poems := fstest.MapFS{
		"spring.txt": {Data: []byte("old pond\na frog leaps in\nthe sound of water\n"), Mode: 0o644},
		"winter.txt": {Data: []byte("first snow\njust enough to bend\nthe leaves\n"), Mode: 0o644},
	}
	if err := sb.CopyFS(ctx, "poems", poems); err != nil {
		return err
	}
	if err := sb.Command("sh", "-c", "cat poems/*.txt | sort > sorted.txt").Run(ctx); err != nil {
		return err
	}

	return fs.WalkDir(sb.FS(ctx), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Printf("%s %4d %s\n", info.Mode(), info.Size(), name)
		return nil
	})
}
