package main

import (
	"context"
	"os"
	"strings"
	"sync/atomic"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

const defaultBaseURL = "http://127.0.0.1:8080"

// globals are the flags of every command.
type globals struct {
	BaseURL string           `name:"base-url" env:"HANZO_BASE_URL" default:"${default_base_url}" placeholder:"ADDRESS" help:"The server."`
	Output  string           `short:"o" enum:"auto,json,table,name" default:"auto" placeholder:"FORMAT" help:"json, table or name; a table on a terminal and JSON otherwise."`
	Version kong.VersionFlag `help:"Print the version."`
}

// cli is all commands.
type cli struct {
	globals

	Sandbox sandboxCmd `cmd:"" help:"Lease sandboxes, run programs in them, move files."`
	Exec    snippetCmd `cmd:"" help:"The code interpreter: snippets, and the files of its sessions."`
	Auth    authCmd    `cmd:"" help:"Store the key for a server."`
	Server  serverCmd  `cmd:"" help:"What the server says about itself."`

	Completion completionCmd `cmd:"" help:"Print a shell's completion script."`
	Man        manCmd        `cmd:"" help:"Print the manual page."`
	Complete   completeCmd   `cmd:"" name:"__complete" hidden:"" help:"What can come next."`
}

// An app is what commands run with.
type app struct {
	*globals
	ctx    context.Context //nolint:containedctx // the program's own
	parser *kong.Kong
	given  string // a key that is being tried
	tty    atomic.Pointer[tty]
}

// handlesSignals reports whether a command sees to signals itself.
func handlesSignals(command string) bool {
	return strings.HasPrefix(command, "sandbox exec ")
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// format is how to show what the server answers.
func (a *app) format() string {
	switch {
	case a.Output != "auto":
		return a.Output
	case isTerminal(os.Stdout):
		return "table"
	}
	return "json"
}
