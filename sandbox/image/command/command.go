// Package command is the command line of an image store: sandbox-image is it,
// and other programs can have it as a command of theirs.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hanzoai/sandbox/sandbox/image"
)

// A Command is the command line. Its zero value lacks the streams.
type Command struct {
	Name   string // as the user types it, as "sandboxd images"
	Dir    string // of the store, unless -dir is given
	Stdout io.Writer
	Stderr io.Writer
}

// errUsage is a command line that makes no sense. What is wrong has been said.
var errUsage = errors.New("usage")

type verb struct {
	name, args, what string
	run              func(c *call) error
}

// verbs are in the order of their use.
var verbs = []verb{
	{"build", "RECIPE", "build an image from Debian's packages", build},
	{"pull", "REFERENCE", "fetch an image from a registry", pull},
	{"import", "PATH[#NAME] NAME", "take an image from an archive or an OCI layout", importImage},
	{"export", "NAME PATH", "write an image as PATH.tar, or an OCI layout in the folder PATH", export},
	{"list", "", "list the images", list},
	{"rm", "NAME...", "forget names of images", remove},
	{"gc", "", "remove images without a name and a user, and what crashes left", gc},
}

// A call is one run of a verb.
type call struct {
	*Command
	ctx   context.Context //nolint:containedctx // of the one call that it lives for
	flags *flag.FlagSet
	args  []string
	quiet bool // tell what has come of it, not how far it is
}

// Run runs the command line and returns the exit code: 2 is one that makes no
// sense.
func (c *Command) Run(ctx context.Context, args []string) int {
	err := c.run(ctx, args)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintf(c.Stderr, "%s: %v\n", c.Name, err)
	return 1
}

func (c *Command) run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(c.Stderr)
	flags.Usage = func() { c.usage(flags) }
	dir := c.Dir
	if dir == "" {
		dir = image.DefaultDir
	}
	flags.StringVar(&c.Dir, "dir", dir, "the store's `folder`")
	if err := parse(flags, args); err != nil {
		return err
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == flags.Arg(0) })
	if i < 0 {
		if flags.NArg() > 0 {
			fmt.Fprintf(c.Stderr, "%s: no command %q\n", c.Name, flags.Arg(0))
		}
		c.usage(flags)
		return errUsage
	}
	v := verbs[i]
	call := &call{Command: c, ctx: ctx, flags: flag.NewFlagSet(c.Name+" "+v.name, flag.ContinueOnError), args: flags.Args()[1:]}
	call.flags.SetOutput(c.Stderr)
	call.flags.Usage = func() {
		fmt.Fprintf(c.Stderr, "usage: %s %s [flags] %s\n\n%s\n", c.Name, v.name, v.args, v.what)
		call.flags.PrintDefaults()
	}
	return v.run(call)
}

func (c *Command) usage(flags *flag.FlagSet) {
	fmt.Fprintf(c.Stderr, "usage: %s [-dir FOLDER] COMMAND [flags] ...\n\n", c.Name)
	for _, v := range verbs {
		fmt.Fprintf(c.Stderr, "  %-28s %s\n", strings.TrimSpace(v.name+" "+v.args), v.what)
	}
	fmt.Fprintln(c.Stderr)
	flags.PrintDefaults()
}

func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return errUsage // flag has said what is wrong
	}
	return err
}

// parse reads the call's flags, which may come after its arguments as well,
// and checks how many arguments there are.
func (c *call) parse(least, most int) error {
	var args []string
	for rest := c.args; ; {
		if err := parse(c.flags, rest); err != nil {
			return err
		}
		if c.flags.NArg() == 0 {
			break
		}
		args, rest = append(args, c.flags.Arg(0)), c.flags.Args()[1:]
	}
	c.args = args
	if len(args) < least || len(args) > most {
		c.flags.Usage()
		return errUsage
	}
	return nil
}

func (c *call) store(registries ...image.Registry) (*image.Store, error) {
	return image.Open(image.Config{Dir: c.Dir, Registries: registries})
}
