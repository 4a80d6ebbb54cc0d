package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

type manCmd struct{}

// Run prints the manual page.
func (c *manCmd) Run(a *app) error {
	p := &page{w: os.Stdout}
	p.line(".TH HANZO 1")
	p.section("NAME")
	p.text(`hanzo \- sandboxes by hand`)
	p.section("SYNOPSIS")
	p.text("hanzo COMMAND [FLAGS] [ARGUMENTS]")
	p.section("DESCRIPTION")
	p.text(escapeRoff(a.parser.Model.Help))
	p.section("FLAGS OF ALL COMMANDS")
	p.flags(a.parser.Model.Flags)
	p.section("COMMANDS")
	p.commands(a.parser.Model.Node)
	p.section("ENVIRONMENT")
	p.item("HANZO_BASE_URL", "The server. By default "+defaultBaseURL+".")
	p.item("HANZO_API_KEY", "The key. By default the one that hanzo auth login stored for the server.")
	p.section("FILES")
	p.item("~/.config/hanzo/keys.json", "The stored keys by server, readable by their owner alone.")
	p.section("EXIT STATUS")
	p.text("0; 1 when the server refuses or something fails; 2 for a command line that is wrong. " +
		"Of commands that run a program the program's own, with 125 when its end is not known, 126 and 127 when it could not be started, " +
		"and 128 and the signal's number when that ended it, as for an interruption of any command.")
	return p.err
}

// A page is a manual page that is being written.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, text)
	}
}

func (p *page) section(name string) { p.line(".SH " + name) }

func (p *page) text(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		p.line(line)
	}
}

func (p *page) item(name, about string) {
	p.line(".TP")
	p.line(`\fB` + escapeRoff(name) + `\fR`)
	p.text(escapeRoff(about))
}

func (p *page) flags(flags []*kong.Flag) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		if !f.IsBool() {
			name += "=" + f.FormatPlaceHolder()
		}
		p.item(name, f.Help)
	}
}

// commands tells those that do something, below a node.
func (p *page) commands(node *kong.Node) {
	for _, next := range node.Children {
		if next.Hidden {
			continue
		}
		if !next.Leaf() {
			p.commands(next)
			continue
		}
		p.line(".SS " + escapeRoff(strings.TrimSpace(next.FullPath()+" "+strings.Join(positions(next), " "))))
		p.text(escapeRoff(next.Help))
		if next.Detail != "" {
			p.line(".PP")
			p.line(".nf")
			p.text(escapeRoff(next.Detail))
			p.line(".fi")
		}
		p.flags(next.Flags)
	}
}

func positions(node *kong.Node) []string {
	var names []string
	for _, arg := range node.Positional {
		names = append(names, arg.Summary())
	}
	return names
}

func escapeRoff(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
}
