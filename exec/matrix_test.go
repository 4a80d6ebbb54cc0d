//go:build linux

package exec_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/imagetest"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// images are where the matrix is run, and what is leased for that: this
// machine's programs, which are what it happens to have, and the image of the
// recipe exec, of which nothing may be missing.
func images(t testing.TB) (sandbox.Images, []sandbox.Spec) {
	t.Helper()
	host := sandbox.Spec{Image: sandbox.HostImage}
	store, err := imagetest.Find("exec")
	if errors.Is(err, sandbox.ErrNotFound) && os.Getenv(imagetest.Require) == "" {
		t.Log(err)
		return sandbox.Local{}, []sandbox.Spec{host}
	}
	if err != nil {
		t.Fatal(err)
	}
	return store, []sandbox.Spec{host, {Image: "exec"}}
}

// TestLanguages runs programs of every language that an image has.
func TestLanguages(t *testing.T) {
	if testing.Short() {
		t.Skip("it is about the languages, and takes minutes")
	}
	all, specs := images(t)
	rt := runtimetest.New(t, sandbox.Config{Images: all})
	for _, spec := range specs {
		t.Run(spec.Image, func(t *testing.T) {
			is := is.New(t)
			l := newLab(t, rt, exec.Config{Spec: spec, Timeout: 5 * time.Minute})
			list, err := l.Languages(bounded(t), "")
			is.NoErr(err)
			is.Equal(len(list), len(matrix)+1)
			for _, tc := range list {
				if tc.Language == shell.Name {
					continue
				}
				t.Run(tc.Language, func(t *testing.T) { testLanguage(t, l, spec.Image, tc) })
			}
		})
	}
}

func testLanguage(t *testing.T, l lab, image string, tc exec.Toolchain) {
	if len(tc.Missing) > 0 && image != sandbox.HostImage {
		t.Fatal("the image lacks ", tc.Missing)
	}
	if len(tc.Missing) > 0 {
		t.Skip("this machine lacks ", tc.Missing) // no reason for the gate to fail: that is on the full image
	}
	p, ok := matrix[tc.Language]
	if !ok {
		t.Fatal("no programs")
	}
	is := is.New(t)
	here := l.upload(t, "", "in.txt", "from a file\n")
	run := func(s exec.Snippet) *exec.Result {
		t.Helper()
		start := time.Now()
		s.Session, s.Language = here.Session, strings.ToUpper(tc.Language)
		res, err := l.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%.40q: %v, %v", s.Code, res.ExitStatus, time.Since(start).Round(time.Millisecond))
		return res
	}

	want := []string{"hello", "-x", "--help", "a b", "it's"}
	res := run(exec.Snippet{Code: p.args, Args: want})
	plain(t, res, strings.Join(want, "\n")+"\n") // hello, args
	is.Equal(paths(res), "")

	plain(t, run(exec.Snippet{Code: p.stdin, Stdin: strings.NewReader("line 1\nline 2\n")}), "line 1\nline 2\n")

	res = run(exec.Snippet{Code: p.fail})
	is.Equal(fmt.Sprintf("%d %q %q", res.Code, res.Stdout, res.Stderr), `3 "" "bad\n"`)

	res = run(exec.Snippet{Code: p.broken}) // compile error
	is.Equal(res.Cause, sandbox.CauseExit)
	is.True(res.Code != 0)
	is.True(res.Stderr != "")
	is.Equal(res.Stdout, "")
	is.Equal(paths(res), "")

	start := time.Now()
	res = run(exec.Snippet{Code: p.out})
	building := time.Since(start)
	plain(t, res, "")
	is.Equal(paths(res), "out.txt")
	is.Equal(l.read(t, here.Session, "out.txt"), "made")

	plain(t, run(exec.Snippet{Code: p.in, Inputs: []exec.Input{input(here)}}), "from a file\n")

	// A build counts, and takes what it takes on a busy machine.
	timeout := 5*time.Second + 2*building
	start = time.Now()
	res = run(exec.Snippet{Code: p.sleep, Timeout: timeout})
	is.Equal(res.Cause, sandbox.CauseTimeout)
	is.Equal(res.Stdout, "started\n")
	is.True(strings.HasSuffix(res.Stderr, "it ran out of time\n"))
	is.True(time.Since(start) < timeout+20*time.Second)
	is.Equal(l.list(t, here.Session), []string{"in.txt", "out.txt"})
}
