// Command sandboxd serves sandboxes over HTTP: openapi.yaml, on this machine.
//
//	sandboxd [--listen ADDRESS] [--root FOLDER] …
//	sandboxd keys create|list|revoke …
//	sandboxd ledger credit|debit|balance|usage …
//	sandboxd images build|pull|import|list …
//	sandboxd mcp [--root FOLDER] …
//
// Each flag has an environment variable of its name, as SANDBOXD_LISTEN. These
// have no flag:
//
//	CODE_EXEC_API_KEY          the service key, for /v1/exec and its files alone
//	CODE_EXEC_FEE_CENTS[_RUN]  what a run of the code interpreter costs; 1 cent
//	SANDBOX_FEE_CENTS[_CLASS]  what a lease costs; nothing
//	SANDBOX_HOUR_CENTS[_CLASS] what an hour of an engine costs, by the second; nothing
//
// It serves agents at /v1/mcp; as sandboxd mcp it serves one over standard
// input and output, with sandboxes of its own and without a network.
//
// It is one static binary with the engine in it, and must be root. Its first
// start prints a key, which is kept nowhere but as a hash. Sandboxes survive
// its end; the next start takes them over.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/hanzoai/sandbox/sandbox/runsc" // carries gVisor in this binary
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the program's own
	defer stop()
	err := run(ctx, &environment{args: os.Args[1:], get: os.LookupEnv, all: os.Environ, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr})
	if code, ok := errors.AsType[exitError](err); ok {
		os.Exit(int(code))
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "sandboxd:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "sandboxd:", err)
		os.Exit(1)
	}
}

// An environment is what the program is started with.
type environment struct {
	args           []string
	get            func(string) (string, bool)
	all            func() []string
	stdin          io.ReadCloser
	stdout, stderr io.Writer
}

var errUsage = errors.New("usage")

func run(ctx context.Context, env *environment) error {
	if len(env.args) > 0 {
		switch env.args[0] {
		case "keys":
			return keys(ctx, env, env.args[1:])
		case "ledger":
			return ledger(ctx, env, env.args[1:])
		case "images":
			return images(ctx, env, env.args[1:])
		case "mcp":
			return agents(ctx, env, env.args[1:])
		}
	}
	return serve(ctx, env)
}
