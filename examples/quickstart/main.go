// Quickstart leases a sandbox, runs a program in it, writes a file and reads
// it back, and shows where that happened.
//
//	CGO_ENABLED=0 go run ./examples/quickstart
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"strings"

	"github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc" // carries gVisor in this binary
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

	out, err := sb.Command("python3", "-c", "print('hello from Python,', 6 * 7)").Output(ctx)
	if errors.Is(err, fs.ErrNotExist) { // this machine has none
		out, err = sb.Command("sh", "-c", `echo "hello from sh, $((6 * 7))"`).Output(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Print(string(out))

	if err := sb.WriteFile(ctx, "notes/today.txt", strings.NewReader("kept in the sandbox\n"), 0o644); err != nil {
		return err
	}
	text, err := fs.ReadFile(sb.FS(ctx), "notes/today.txt")
	if err != nil {
		return err
	}
	fmt.Print(string(text))

	kernel, err := sb.Command("uname", "-sr").Output(ctx)
	if err != nil {
		return err
	}
	fmt.Print("kernel: ", string(kernel))
	return nil
}
