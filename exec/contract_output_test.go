//go:build linux

package exec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/sandbox"
)

func replyShape(t *testing.T, l lab) {
	is := is.New(t)
	res := l.sh(t, "", "echo hello")
	plain(t, res, "hello\n")
	is.Equal(len(res.Session), 21)
	is.Equal(len(res.Files), 0)
	is.Equal(res.Omitted.Count, 0)
	is.Equal(res.Cause, sandbox.CauseExit)
}

func nonZeroExit(t *testing.T, l lab) {
	is := is.New(t)
	res := l.sh(t, "", "echo out; echo err >&2; exit 3")
	is.Equal(res.Stdout, "out\n")
	is.Equal(res.Stderr, "err\n")
	is.Equal(res.Code, 3)
	is.Equal(res.Cause, sandbox.CauseExit)
}

func exitCodeOnly(t *testing.T, l lab) {
	is := is.New(t)
	res := l.sh(t, "", "exit 7")
	is.Equal(res.Stdout+res.Stderr, "") // nothing is made up
	is.Equal(res.Code, 7)
}

func emptyOutput(t *testing.T, l lab) { plain(t, l.sh(t, "", "true"), "") }

func stdoutIsExact(t *testing.T, l lab) {
	odd := "no newline at the end \xff\x00\xfe\r\n\t é"
	f := l.upload(t, "", "odd", odd)
	plain(t, l.sh(t, f.Session, "cat odd"), odd)
}

func args(t *testing.T, l lab) {
	want := []string{"a b", "", "-x", "--", "é", "it's", `"q"`, "$HOME", "*", "line\nbreak"}
	res := l.run(t, exec.Snippet{Code: `printf '%s\n' "$1" "$2" "$3" "$4" "$5" "$6" "$7" "$8" "$9"`, Args: want})
	plain(t, res, strings.Join(want[:9], "\n")+"\n")
}

func workingDirectory(t *testing.T, l lab) {
	plain(t, l.sh(t, "", "pwd; echo x > rel; cat /mnt/data/rel"), "/mnt/data\nx\n")
}

func largeOutput(t *testing.T, l lab) {
	is := is.New(t)
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	whole := b.String()
	f := l.upload(t, "", "big", whole)
	res := l.sh(t, f.Session, "cat big; cat big >&2")
	is.True(res.Success())
	for _, got := range []string{res.Stdout, res.Stderr} {
		head, rest, ok := strings.Cut(got, "\n... ")
		count, tail, ok2 := strings.Cut(rest, " bytes left out ...\n")
		is.True(ok && ok2)
		is.True(strings.HasPrefix(whole, head))
		is.True(strings.HasSuffix(whole, tail))
		is.Equal(count, fmt.Sprint(len(whole)-64<<10))
		is.Equal(len(head)+len(tail), 64<<10)
	}
	small := l.upload(t, f.Session, "small", whole[:64<<10])
	plain(t, l.sh(t, small.Session, "cat small"), whole[:64<<10]) // all of it
}

func liveOutput(t *testing.T, l lab) {
	is := is.New(t)
	var out, err strings.Builder
	res := l.run(t, exec.Snippet{
		Code: "echo a; echo b >&2", Stdout: &out, Stderr: &err,
		Inputs: []exec.Input{{Session: "none", File: "x"}},
	})
	is.Equal(out.String(), "a\n")
	is.Equal(err.String(), res.Stderr)
	is.True(strings.HasPrefix(res.Stderr, `exec: input "x" is missing`))

	res = l.run(t, exec.Snippet{Code: "echo a; echo b; exit 4", Stdout: full{}})
	is.Equal(res.Stdout, "a\nb\n") // a client that is gone does not end the program
	is.Equal(res.Code, 4)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func stdin(t *testing.T, l lab) {
	plain(t, l.run(t, exec.Snippet{Code: "cat", Stdin: strings.NewReader("from outside\n")}), "from outside\n")
	plain(t, l.sh(t, "", "cat; echo end"), "end\n") // none is given
}

func runaway(t *testing.T, l lab) {
	is := is.New(t)
	start := time.Now()
	res := l.run(t, exec.Snippet{Code: "echo before > made.txt; echo before; echo -n err >&2; sleep 100; echo after", Timeout: 2 * time.Second})
	is.Equal(res.Stdout, "before\n")
	is.Equal(res.Stderr, "err\nexec: stopped after 2s: it ran out of time\n")
	is.Equal(res.Cause, sandbox.CauseTimeout)
	is.Equal(paths(res), "made.txt") // what it made till then
	is.True(time.Since(start) < 30*time.Second)
}

func badSnippets(t *testing.T, l lab) {
	is := is.New(t)
	for name, s := range map[string]exec.Snippet{
		"empty":             {Language: "sh"},
		"blank":             {Language: "sh", Code: " \n\t"},
		"NUL in code":       {Language: "sh", Code: "echo \x00"},
		"NUL in argument":   {Language: "sh", Code: "true", Args: []string{"a\x00"}},
		"long argument":     {Language: "sh", Code: "true", Args: []string{strings.Repeat("x", 200<<10)}},
		"unknown language":  {Language: "cobol", Code: "true"},
		"no language":       {Code: "true"},
		"negative timeout":  {Language: "sh", Code: "true", Timeout: -1},
		"input without one": {Language: "sh", Code: "true", Inputs: []exec.Input{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			res, err := l.Run(bounded(t), s)
			is.True(errors.Is(err, sandbox.ErrInvalid))
			if res != nil {
				l.endLater(t, res.Session)
			}
		})
	}
	_, err := l.Run(bounded(t), exec.Snippet{Language: "cobol", Code: "x"})
	is.True(errors.Is(err, exec.ErrLanguage))
	is.Equal(err.Error(), `unknown language "cobol": have py, js, ts, bash, r, php, go, rs, c, cpp, java, d, f90, sh`)
	_, err = l.Upload(bounded(t), exec.Upload{Name: "x"})
	is.True(errors.Is(err, sandbox.ErrInvalid))
}

func toolchainMissing(t *testing.T, l lab) {
	is := is.New(t)
	l = newLab(t, l.sandboxes, exec.Config{Languages: []exec.Language{
		{Name: "None", File: "main.none", Run: []string{"no-such-interpreter", "{src}"}},
		{Name: "half", File: "main.half", Build: []string{"no-such-compiler"}, Run: []string{"sh", "{src}"}},
	}})
	here := l.sh(t, "", "true")
	for language, program := range map[string]string{"none": "no-such-interpreter", "half": "no-such-compiler"} {
		_, err := l.Run(bounded(t), exec.Snippet{Session: here.Session, Language: language, Code: "x"})
		is.True(errors.Is(err, exec.ErrToolchain))
		e, ok := errors.AsType[*exec.ToolchainError](err)
		is.True(ok)
		is.Equal(e.Program, program)
		is.Equal(err.Error(), "language "+language+": this image has no "+program)
	}
	list, err := l.Languages(bounded(t), here.Session)
	is.NoErr(err)
	is.Equal(len(list), 16)
	for _, tc := range list {
		switch tc.Language {
		case "none":
			is.Equal(tc.Missing, []string{"no-such-interpreter"})
		case "half":
			is.Equal(tc.Missing, []string{"no-such-compiler"})
		case "sh":
			is.Equal(len(tc.Missing), 0)
		}
	}
}
