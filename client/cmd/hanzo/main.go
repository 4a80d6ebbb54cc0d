// Command hanzo is sandboxes by hand: every operation of openapi.yaml, and
// what people do with a computer that is elsewhere.
//
//	hanzo auth login
//	hanzo sandbox lease
//	hanzo sandbox exec ID -- python3 -c 'print(6 * 7)'
//	hanzo sandbox cp ./src ID:src
//	hanzo exec create --lang py --code 'print(6 * 7)'
//
// The server is the one in HANZO_BASE_URL, by default sandboxd on this
// machine; the key is in HANZO_API_KEY, or was stored for that server by hanzo
// auth login. Output is a table on a terminal and JSON otherwise; -o says
// which. Errors go to standard error with the server's own sentence.
//
// Exit codes: 0; 1 when the server refuses or something fails; 2 for a command
// line that is wrong; for commands that run a program the program's own, with
// 125 when it could not be run or its end is not known, 126 and 127 when it
// could not be started, and 128 and the signal's number when that ended it, as
// for an interruption of any command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

func main() { os.Exit(run(os.Args[1:])) }

const (
	exitFailed = 1
	exitUsage  = 2
	exitLost   = 125 // of a program: the call failed, and not it
)

// An exitError is the end of a command with a code of its own. Without an
// error there is nothing to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func run(args []string) int {
	c := &cli{}
	parser, err := newParser(c)
	if err != nil {
		panic(err) // of this program
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(singular(args))
	if err != nil {
		fmt.Fprintln(os.Stderr, "hanzo:", sentence(err))
		return exitUsage
	}
	ctx, end := context.WithCancelCause(context.Background()) //nolint:forbidigo // the program's own
	defer end(nil)
	a := &app{globals: &c.globals, ctx: ctx, parser: parser}
	if !handlesSignals(parsed.Command()) {
		defer a.catch(end)()
	}
	err = parsed.Run(a)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return exitCode(err)
}

func newParser(c *cli) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("hanzo"),
		kong.Description("Sandboxes by hand. The server is in HANZO_BASE_URL, the key in HANZO_API_KEY or from hanzo auth login."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.KindMapper(reflect.String, kong.MapperFunc(verbatim)),
		kong.Vars{"default_base_url": defaultBaseURL, "version": version()},
	)
}

// verbatim takes a word as it is, also if it is no UTF-8, as a file's name can
// be.
func verbatim(ctx *kong.DecodeContext, target reflect.Value) error {
	word, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	target.SetString(word.String())
	return nil
}

// version is the module's, as it was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return strings.TrimSpace(info.Main.Version + " " + info.GoVersion)
}

// singular lets sandboxes and sb be said for sandbox. An alias of kong's would
// be in every line of the help.
func singular(args []string) []string {
	if len(args) > 0 && (args[0] == "sandboxes" || args[0] == "sb") {
		return append([]string{"sandbox"}, args[1:]...)
	}
	return args
}

// sentence is kong's with the way out.
func sentence(err error) string {
	text := err.Error()
	if strings.Contains(text, "did you mean") {
		return text
	}
	if strings.Contains(text, "expected one of") || strings.Contains(text, "unexpected argument") || strings.Contains(text, "unknown flag") {
		text += "; --help tells what there is"
	}
	return text
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		exit = &exitError{exitFailed, err}
	}
	if exit.err != nil {
		fmt.Fprintln(os.Stderr, "hanzo:", printable(exit.err.Error()))
	}
	return exit.code
}
