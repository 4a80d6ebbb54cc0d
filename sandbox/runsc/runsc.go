//go:build linux && !cgo

package runsc

import (
	stdflag "flag"
	"io"
	"os"
	"strings"

	"github.com/google/subcommands"
	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
	"gvisor.dev/gvisor/runsc/flag"

	"github.com/hanzoai/sandbox/internal/engine"
)

// init turns this process into runsc when it was started as runsc. It must
// not wait for main: runsc starts its own sentry and gofer as this same
// executable, and a test binary has no main of ours to call.
func init() {
	if !engine.IsRunsc(os.Args) {
		engine.Embed(nil)
		return
	}
	freshFlags()
	os.Args = tellLimits(os.Args)
	cli.Run(nil, commands(), nil)
	os.Exit(0)
}

// commands is the part of runsc that the Runtime and the engine itself use.
// The full table brings a 47 MB helper for remote checkpoints along.
func commands() map[util.SubCommand]string {
	commands := map[util.SubCommand]string{}
	for _, c := range []util.SubCommand{
		new(cmd.Run), new(cmd.Exec), new(cmd.Delete), new(cmd.State), new(cmd.List),
		new(sentrycmd.Boot), new(cmd.Gofer),
	} {
		commands[c] = ""
	}
	return commands
}

// freshFlags gives runsc a flag set of its own. It defines flags such as
// -root and -debug on the process-wide set, and panics when the program that
// carries it, or its test framework, has one of the same name.
func freshFlags() {
	logFlags := map[string]*stdflag.Flag{}
	flag.CommandLine.VisitAll(func(f *stdflag.Flag) {
		if strings.HasSuffix(f.Name, "-fd") {
			logFlags[f.Name] = f
		}
	})
	fresh := flag.NewFlagSet(os.Args[0], stdflag.ExitOnError)
	for _, name := range []string{"log-fd", "debug-log-fd", "panic-log-fd", "coverage-fd"} {
		fresh.Var(logFlags[name].Value, name, logFlags[name].Usage)
	}
	flag.CommandLine, stdflag.CommandLine = fresh, fresh
	subcommands.DefaultCommander = subcommands.NewCommander(fresh, os.Args[0])
	subcommands.DefaultCommander.Output, subcommands.DefaultCommander.Error = io.Discard, os.Stderr
}
