package sandboxtest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// programCases are about what a program is given and how it ends by itself.
var programCases = cases{
	{"success", success},
	{"exit code", exitCode},
	{"arguments pass as they are", verbatimArgs},
	{"what cannot be right is refused", invalidCommand},
	{"missing program", missingProgram},
	{"missing program of a shell", missingInShell},
	{"missing directory", missingDir},
	{"file that is no program", notExecutable},
	{"file that is a program", executable},
	{"environment", environment},
	{"environment of the host", hostEnvironment},
	{"directory", directory},
}

func success(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	is.NoErr(sb.Command("true").Run(bounded(t)))
	is.NoErr(sb.Command("sh", "-c", "exit 0").Run(bounded(t)))
}

func exitCode(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	for script, code := range map[string]int{"exit 3": 3, "exit 255": 255, "exit 128": 128, "exit 137": 137, "false": 1} {
		e := exitOf(t, sb.Command("sh", "-c", script).Run(bounded(t)))
		is.Equal(e.Cause, sandbox.CauseExit) // whatever the number: it is the program's own
		is.Equal(e.Code, code)
		is.Equal(int(e.Signal), 0)
		is.NoErr(e.Err) // nothing cut it short
	}
}

var oddArgs = []string{
	"a b", "  ", "", "'", `"`, "`id`", "$HOME", "${HOME}", "$(id)", "*", "?", "[a]", "~", "{a,b}", "a\nb", "\n", "\ttab",
	"-n", "--", "-", `\n`, `\\`, ";", "&", "|", ">x", "#", "!", "%s", "é", "e\u0301", "\xff\xfe\x80", "",
}

func verbatimArgs(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	got := outputOf(t, sb, "printf", append([]string{`%s\n`}, oddArgs...)...)
	is.Equal(got, strings.Join(oddArgs, "\n")+"\n")
}

func invalidCommand(t *testing.T, sb *sandbox.Sandbox) {
	for name, spoil := range map[string]func(*sandbox.Cmd){
		"no program":               func(c *sandbox.Cmd) { c.Args = nil },
		"empty program":            func(c *sandbox.Cmd) { c.Args = []string{""} },
		"NUL in the program":       func(c *sandbox.Cmd) { c.Args = []string{"true\x00"} },
		"NUL in an argument":       func(c *sandbox.Cmd) { c.Args = []string{"true", "a\x00b"} },
		"NUL in the environment":   func(c *sandbox.Cmd) { c.Env = []string{"A=\x00"} },
		"NUL in the directory":     func(c *sandbox.Cmd) { c.Dir = "a\x00" },
		"environment without =":    func(c *sandbox.Cmd) { c.Env = []string{"NAME"} },
		"environment without name": func(c *sandbox.Cmd) { c.Env = []string{"=value"} },
		"empty environment entry":  func(c *sandbox.Cmd) { c.Env = []string{""} },
		"root":                     func(c *sandbox.Cmd) { c.User = sandbox.User{UID: 0, GID: 1000} },
		"root's group":             func(c *sandbox.Cmd) { c.User = sandbox.User{UID: 1000, GID: 0} },
		"negative timeout":         func(c *sandbox.Cmd) { c.Timeout = -time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			cmd := sb.Command("true")
			spoil(cmd)
			is.True(errors.Is(cmd.Run(bounded(t)), sandbox.ErrInvalid))
		})
	}
}

// startErrorOf fails the test unless err says that a program never ran.
func startErrorOf(t *testing.T, err error) *sandbox.StartError {
	t.Helper()
	e, ok := errors.AsType[*sandbox.StartError](err)
	if !ok {
		t.Fatalf("%T (%v) is not a StartError", err, err)
	}
	return e
}

func missingProgram(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	for _, name := range []string{"nosuch_program_x", "./nosuch_program_x", "/nosuch_folder_x/true"} {
		e := startErrorOf(t, sb.Command(name).Run(bounded(t)))
		is.True(errors.Is(e, fs.ErrNotExist))
		is.Equal(e.Path, name)
	}
}

func missingInShell(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	e := exitOf(t, sb.Command("sh", "-c", "nosuch_program_x").Run(bounded(t)))
	is.Equal(e.Cause, sandbox.CauseExit)
	is.Equal(e.Code, 127)
}

func missingDir(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "missing-dir/file", "", 0o644)
	cmd := sb.Command("true")
	cmd.Dir = "missing-dir/none"
	e := startErrorOf(t, cmd.Run(bounded(t)))
	is.True(errors.Is(e, fs.ErrNotExist))
	is.True(strings.HasSuffix(e.Path, "missing-dir/none")) // it is the directory that is named
	cmd = sb.Command("true")
	cmd.Dir = "missing-dir/file"
	startErrorOf(t, cmd.Run(bounded(t)))
}

func notExecutable(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "not-executable/plain", "#!/bin/sh\necho ran\n", 0o644)
	for _, name := range []string{"not-executable/plain", "./not-executable"} {
		e := startErrorOf(t, sb.Command(name).Run(bounded(t)))
		is.True(errors.Is(e, fs.ErrPermission))
	}
}

func executable(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "executable/program", "#!/bin/sh\necho ran; exit 4\n", 0o755)
	cmd := sb.Command("./program")
	cmd.Dir = "executable" // from where a relative name is meant
	out, err := cmd.Output(bounded(t))
	is.Equal(exitOf(t, err).Code, 4)
	is.Equal(string(out), "ran\n")
}

func environment(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := func(name string, arg ...string) string {
		cmd := sb.Command(name, arg...)
		cmd.Env = []string{"FROM_CALL=a b=c ", "FROM_BOTH=call", "EMPTY=", "TWICE=1", "TWICE=2"}
		out, err := cmd.Output(bounded(t))
		is.NoErr(err)
		return string(out)
	}
	is.Equal(cmd("printenv", "FROM_CALL"), "a b=c \n")
	is.Equal(cmd("printenv", "EMPTY"), "\n")
	is.Equal(cmd("printenv", "FROM_LEASE"), "lease\n")
	is.Equal(cmd("sh", "-c", "echo $FROM_BOTH"), "call\n") // overrides, for a shell
	is.Equal(cmd("printenv", "FROM_BOTH"), "call\n")       // overrides, and the old value is gone
	is.Equal(cmd("printenv", "TWICE"), "2\n")              // the last one counts
	is.Equal(outputOf(t, sb, "printenv", "FROM_BOTH"), "lease\n")
	is.Equal(exitOf(t, sb.Command("printenv", "FROM_CALL").Run(bounded(t))).Code, 1) // one call's is no other's
}

func hostEnvironment(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	env := outputOf(t, sb, "env")
	is.True(strings.Contains(env, "FROM_LEASE=lease\n")) // it is the environment
	is.True(!strings.Contains(env, hostMarker))          // and not this process's
}

func directory(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "directory/below/file", "", 0o644)
	work := workdirOf(t, sb)
	for dir, want := range map[string]string{
		"":                        work,
		".":                       work,
		"directory/below":         work + "/directory/below",
		work + "/directory/below": work + "/directory/below",
		"directory/below/..":      work + "/directory",
		"/":                       "/",
	} {
		cmd := sb.Command("pwd")
		cmd.Dir = dir
		out, err := cmd.Output(bounded(t))
		is.NoErr(err)
		is.Equal(string(out), want+"\n")
	}
}
