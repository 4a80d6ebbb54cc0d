package sandbox

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The sandbox's own user.
const (
	defaultUID = 1000
	userName   = "sandbox"
	homeDir    = "/home/sandbox"
)

// maxArg bounds one argument or environment entry, by the kernel's own limit:
// see execve(2). maxArgs bounds them together, below what the protocol carries
// in one request.
const (
	maxArg  = 128<<10 - 1
	maxArgs = 3 << 20
)

func validate(c *Cmd) error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return invalid("the command is empty: name a program in Args[0]")
	}
	size := 0
	for _, list := range [][]string{c.Args, c.Env, {c.Dir}} {
		if err := checkStrings(list, &size); err != nil {
			return err
		}
	}
	if err := checkEnv(c.Env); err != nil {
		return err
	}
	if c.User != (User{}) && (c.User.UID == 0 || c.User.GID == 0) {
		return invalid("user %d:%d: commands do not run as root, whose rights are those of the sandbox's init; the default is %d", c.User.UID, c.User.GID, defaultUID)
	}
	if c.Timeout < 0 || c.WaitDelay < 0 {
		return invalid("a negative duration")
	}
	return validateTerminal(c)
}

// checkStrings refuses what no program can be given, and adds up the rest.
func checkStrings(list []string, size *int) error {
	for _, s := range list {
		if strings.ContainsRune(s, 0) {
			return invalid("%.40q has a NUL byte, which no program can be given", s)
		}
		if len(s) > maxArg {
			return invalid("%.40q... has %d bytes, and no program can be given more than %d in one string: pass it on Stdin or in a file", s, len(s), maxArg)
		}
		if *size += len(s) + 1; *size > maxArgs {
			return invalid("arguments and environment of more than %d bytes: pass the rest on Stdin or in a file", maxArgs)
		}
	}
	return nil
}

func validateTerminal(c *Cmd) error {
	if c.Terminal == nil {
		return nil
	}
	if c.Stderr != nil {
		return invalid("a terminal has one output: leave Stderr nil")
	}
	rows, cols := c.Terminal.Size()
	return checkSize(rows, cols)
}

const maxTerminal = 1000

func checkSize(rows, cols uint16) error {
	if rows == 0 || cols == 0 || rows > maxTerminal || cols > maxTerminal {
		return invalid("a terminal of %d rows and %d columns: both are 1 to %d", rows, cols, maxTerminal)
	}
	return nil
}

func checkEnv(env []string) error {
	for _, kv := range env {
		if i := strings.IndexByte(kv, '='); i <= 0 {
			return invalid("environment entry %.40q is not KEY=value", kv)
		}
	}
	return nil
}

// maxName bounds names that callers choose, maxImageName those of images, which
// are paths and addresses.
const (
	maxName      = 128
	maxImageName = 4 << 10
)

func checkName(what, name string) error {
	if len(name) > maxName {
		return invalid("%s of %d bytes: at most %d", what, len(name), maxName)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return invalid("%s %.40q: want UTF-8 without control characters", what, name)
	}
	return nil
}
