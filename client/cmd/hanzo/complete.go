package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

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
}
complete -o default -F _hanzo hanzo
`,
	"zsh": `#compdef hanzo
_hanzo() {
  local -a words_after=("${(@)words[2,CURRENT]}") found
  found=("${(@f)$(hanzo __complete -- "${words_after[@]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -- "${found[@]}"; else _files; fi
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
	for _, word := range complete(a.parser.Model.Node, c.Words) {
		if _, err := fmt.Fprintln(os.Stdout, word); err != nil {
			return err
		}
	}
	return nil
}

// complete follows the words from a command on.
func complete(node *kong.Node, words []string) []string {
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1]
		words = words[:len(words)-1]
	}
	flags := slices.Clone(node.Flags)
	takesValue := false
	for _, word := range words {
		if takesValue {
			takesValue = false
			continue
		}
		if strings.HasPrefix(word, "-") {
			takesValue = !strings.Contains(word, "=") && wantsValue(flags, word)
			continue
		}
		if next := child(node, word); next != nil {
			node = next
			flags = append(flags, node.Flags...)
		}
	}
	var found []string
	add := func(word string) {
		if strings.HasPrefix(word, last) {
			found = append(found, word)
		}
	}
	switch {
	case takesValue:
	case strings.HasPrefix(last, "-"):
		for _, f := range flags {
			if !f.Hidden {
				add("--" + f.Name)
			}
		}
	default:
		for _, next := range node.Children {
			if !next.Hidden {
				add(next.Name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func child(node *kong.Node, word string) *kong.Node {
	for _, next := range node.Children {
		if next.Name == word || slices.Contains(next.Aliases, word) {
			return next
		}
	}
	return nil
}

func wantsValue(flags []*kong.Flag, word string) bool {
	for _, f := range flags {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return !f.IsBool()
		}
	}
	return false
}
