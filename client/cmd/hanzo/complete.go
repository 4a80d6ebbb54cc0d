package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is what --help adds.
func (c *completionCmd) Help() string {
	return `Examples:
  source <(hanzo completion bash)
  hanzo completion zsh > "${fpath[1]}/_hanzo"
  hanzo completion fish > ~/.config/fish/completions/hanzo.fish`
}

// scripts ask the program itself what can come next.
var scripts = map[string]string{
	"bash": `_hanzo() {
  local IFS=$'\n'
  COMPREPLY=($(hanzo __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [[ $COMPREPLY == *: ]]; then compopt -o nospace; fi
}
complete -o default -F _hanzo hanzo
`,
	"zsh": `#compdef hanzo
_hanzo() {
  local -a words_after=("${(@)words[2,CURRENT]}") found
  found=("${(@f)$(hanzo __complete -- "${words_after[@]}" 2>/dev/null)}")
  local -a space=()
  if [[ "$found[1]" == *: ]]; then space=(-S ''); fi
  if [[ -n "$found" ]]; then compadd $space -- "${found[@]}"; else _files; fi
}
compdef _hanzo hanzo
`,
	"fish": `complete -c hanzo -a '(hanzo __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

// Run prints a script.
func (c *completionCmd) Run() error {
	_, err := fmt.Print(scripts[c.Shell])
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints what the last word can become.
func (c *completeCmd) Run(a *app) error {
	if len(c.Words) > 0 && c.Words[0] == "--" {
		c.Words = c.Words[1:]
	}
	for _, word := range a.complete(singular(c.Words)) {
		if _, err := fmt.Fprintln(os.Stdout, word); err != nil {
			return err
		}
	}
	return nil
}

// complete is what the last of some words can become.
func (a *app) complete(words []string) []string {
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1]
		words = words[:len(words)-1]
	}
	p := place{node: a.parser.Model.Node, flags: slices.Clone(a.parser.Model.Flags)}
	for _, word := range words {
		p.follow(word)
	}
	var all []string
	switch next := p.next(); {
	case p.value == nil && strings.HasPrefix(last, "-"):
		for _, f := range p.flags {
			if !f.Hidden {
				all = append(all, "--"+f.Name)
			}
		}
	case next != nil && next.Enum != "":
		all = next.EnumSlice()
	case next != nil && slices.Contains(idNames, next.Name):
		all = a.ids()
	case next != nil && slices.Contains(pathNames, next.Name) && last != "": // else it is a file here
		for _, id := range a.ids() {
			all = append(all, id+":")
		}
	case p.value == nil:
		for _, next := range p.node.Children {
			if !next.Hidden {
				all = append(all, next.Name)
			}
		}
	}
	all = slices.DeleteFunc(all, func(word string) bool { return !strings.HasPrefix(word, last) })
	slices.Sort(all)
	return slices.Compact(all)
}

// A place is where a command line has come to.
type place struct {
	node  *kong.Node
	flags []*kong.Flag // that there can be
	value *kong.Flag   // whose value comes next
	given int          // how many of the command's own arguments have been
}

func (p *place) follow(word string) {
	switch next := child(p.node, word); {
	case p.value != nil && word == "=": // as bash splits it
	case p.value != nil:
		p.value = nil
	case strings.HasPrefix(word, "-"):
		p.value = valued(p.flags, word)
	case next != nil:
		p.node, p.flags = next, append(p.flags, next.Flags...)
	default:
		p.given++
	}
}

// next is the flag or argument whose value comes next, if there is one.
func (p *place) next() *kong.Value {
	if p.value != nil {
		return p.value.Value
	}
	of := p.node
	if of.DefaultCmd != nil {
		of = of.DefaultCmd
	}
	n := len(of.Positional)
	if n == 0 || p.given >= n && !of.Positional[n-1].IsCumulative() {
		return nil
	}
	return of.Positional[min(p.given, n-1)]
}

// idNames are the arguments and flags that sandboxes are given by; a session
// is one too.
var idNames = []string{"id", "sid", "session", "session-id"}

// pathNames are those that files are given by, here or in a sandbox.
var pathNames = []string{"from", "to"}

// idsTimeout bounds how long somebody waits at a prompt.
const idsTimeout = time.Second

// ids are the caller's sandboxes, if a server tells them.
func (a *app) ids() []string {
	ctx, cancel := context.WithTimeout(a.ctx, idsTimeout)
	defer cancel()
	r, err := a.remote()
	if err != nil {
		return nil
	}
	var ids []string
	for info, err := range r.List(ctx) {
		if err != nil {
			break // nobody is told at a prompt
		}
		ids = append(ids, info.ID)
	}
	return ids
}

func child(node *kong.Node, word string) *kong.Node {
	for _, next := range node.Children {
		if next.Name == word || slices.Contains(next.Aliases, word) {
			return next
		}
	}
	return nil
}

// valued is the flag that a word is, if its value comes next.
func valued(flags []*kong.Flag, word string) *kong.Flag {
	for _, f := range flags {
		if (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) && !f.IsBool() {
			return f
		}
	}
	return nil
}
