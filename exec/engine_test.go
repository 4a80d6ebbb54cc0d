//go:build linux

package exec_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// TestOnEngine is about programs that only a real sandbox can hold.
func TestOnEngine(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	l := newLab(t, rt, exec.Config{})
	if err := l.sandboxTest(t).Command("python3", "--version").Run(t.Context()); err != nil {
		runtimetest.Lacks(t, "these programs are in python3: ", err)
	}
	for _, c := range []struct {
		name string
		test func(t *testing.T, l lab)
	}{
		{"binary-stdout-is-valid-json", binaryOutput},
		{"syntax-error", syntaxError},
		{"program of a megabyte", megabyte},
		{"helpers beside the program", helpers},
		{"endless output", endlessOutput},
		{"fork bomb", forkBomb},
		{"background job", backgroundJob},
		{"killed by a signal", killedBySignal},
		{"plots", showPlots},
		{"build cache", buildCache},
		{"compiler's messages", compilerMessages},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, l) })
	}
	t.Run("another organisation's session", func(t *testing.T) { otherOrganisation(t, rt) })
	t.Run("parked session", func(t *testing.T) { parkedSession(t, rt) })
	t.Run("attachments", func(t *testing.T) { attachments(t, rt) })
	t.Run("failed-uploads", func(t *testing.T) { failedUploads(t, rt) })
}

func binaryOutput(t *testing.T, l lab) {
	is := is.New(t)
	res := l.py(t, "", `import sys; sys.stdout.buffer.write(bytes(range(256)))`)
	want := make([]byte, 256)
	for i := range want {
		want[i] = byte(i)
	}
	is.Equal(res.Stdout, string(want))
}

func syntaxError(t *testing.T, l lab) {
	is := is.New(t)
	res := l.run(t, exec.Snippet{Language: "Py", Code: "print('a'\n"})
	is.Equal(res.Code, 1)
	is.True(strings.Contains(res.Stderr, "SyntaxError"))
	is.True(!strings.Contains(res.Stderr, "exec:"))
}

func megabyte(t *testing.T, l lab) {
	is := is.New(t)
	res := l.py(t, "", "x = '"+strings.Repeat("é", 512<<10)+"'\nprint(len(x))")
	is.Equal(res.Stdout, "524288\n")
	is.Equal(paths(res), "")
}

// What a script names relative to itself is in the working directory.
func helpers(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "helper.py", "def f(): return 'helped'")
	res := l.py(t, f.Session, "import os, helper\nprint(helper.f(), os.path.dirname(__file__))")
	plain(t, res, "helped /mnt/data\n")
	is.Equal(paths(res), "") // no cache of Python's
	if l.sandboxTest(t).Command("node", "--version").Run(t.Context()) != nil {
		return
	}
	l.upload(t, f.Session, "lib/helper.js", "exports.f = () => 'required'")
	plain(t, l.run(t, exec.Snippet{Session: f.Session, Language: "js", Code: "console.log(require('./lib/helper').f())"}), "required\n")
}

func endlessOutput(t *testing.T, l lab) {
	is := is.New(t)
	res := l.run(t, exec.Snippet{Language: "bash", Code: "yes", Timeout: 2 * time.Second})
	is.Equal(res.Cause, sandbox.CauseTimeout)
	is.True(len(res.Stdout) < 1<<20+100)
	is.True(strings.Contains(res.Stdout, "bytes left out"))
	res = l.py(t, res.Session, "import sys\nfor i in range(3): sys.stdout.write('x' * (1 << 20))\nprint('end')")
	is.True(res.Success()) // no program is killed for talking
	is.True(strings.HasSuffix(res.Stdout, "xend\n"))
}

func forkBomb(t *testing.T, l lab) {
	is := is.New(t)
	start := time.Now()
	res := l.run(t, exec.Snippet{Language: "bash", Code: ":(){ :|:& };:; sleep 100", Timeout: 3 * time.Second})
	is.True(!res.Success())
	is.True(time.Since(start) < limit)
	plain(t, l.py(t, res.Session, "print('alive')"), "alive\n")
}

func backgroundJob(t *testing.T, l lab) {
	is := is.New(t)
	start := time.Now()
	res := l.run(t, exec.Snippet{Language: "bash", Code: "sleep 100 & echo started"})
	is.Equal(res.Stdout, "started\n")
	is.True(time.Since(start) < limit) // it is not waited for
}

func killedBySignal(t *testing.T, l lab) {
	is := is.New(t)
	res := l.run(t, exec.Snippet{Language: "py", Code: "import os; os.kill(os.getpid(), 11)"})
	is.Equal(res.Cause, sandbox.CauseSignal)
	is.Equal(res.Code, 139)
	is.Equal(res.Stderr, "exec: ended by signal 11, segmentation fault\n")
}

// pyplot stands for matplotlib's, where that is not to be had: the way in
// which a figure gets shown is the same.
const pyplot = `
import matplotlib.figure
figures = {}
def figure(n):
    return figures.setdefault(n, matplotlib.figure.Figure())
def get_fignums(): return sorted(figures)
def close(which): figures.clear()
def show(): raise RuntimeError("there is no screen")
`

func showPlots(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "matplotlib/__init__.py", "")
	l.upload(t, f.Session, "matplotlib/figure.py", "class Figure:\n    def savefig(self, name): open(name, 'w').write('a picture')\n")
	l.upload(t, f.Session, "matplotlib/pyplot.py", pyplot)
	res := l.py(t, f.Session, `
import os
import matplotlib.pyplot as plt
plt.figure(1); plt.figure(2)
plt.show()
plt.show()
plt.figure(3).show()
print(os.environ["MPLBACKEND"], os.environ["MPLCONFIGDIR"])`)
	plain(t, res, "Agg /tmp/matplotlib\n")
	is.Equal(paths(res), "plot_1.png plot_2.png plot_3.png")
	res = l.run(t, exec.Snippet{Session: f.Session, Language: "bash", Code: "python3 -c '\nimport matplotlib.pyplot as plt\nplt.figure(1)\nplt.show()'"})
	plain(t, res, "")
	is.Equal(paths(res), "plot_4.png") // nothing is written over
}

func buildCache(t *testing.T, l lab) {
	is := is.New(t)
	sb := l.sandboxTest(t)
	if sb.Command("gcc", "--version").Run(t.Context()) != nil {
		runtimetest.Lacks(t, "there is no gcc")
	}
	run := func(code string) (string, time.Duration) {
		start := time.Now()
		res := l.run(t, exec.Snippet{Session: sb.ID(), Language: "c", Code: code, Args: []string{"arg"}})
		is.Equal(res.Stderr, "")
		return res.Stdout, time.Since(start)
	}
	const args = "#include <stdio.h>\nint main(int n, char **a) { puts(a[1]); return 0; }"
	out, first := run(args)
	is.Equal(out, "arg\n")
	out, second := run(args)
	is.Equal(out, "arg\n")
	t.Logf("%v, then %v", first, second)
	is.True(second < first)

	// What is included may change, so the program is built anew.
	including := "#include <stdio.h>\n#include \"word.h\"\nint main(void) { puts(WORD); return 0; }"
	for _, word := range []string{"one", "two"} {
		l.upload(t, sb.ID(), "word.h", fmt.Sprintf("#define WORD %q\n", word))
		out, _ = run(including)
		is.Equal(out, word+"\n")
	}
}

func compilerMessages(t *testing.T, l lab) {
	is := is.New(t)
	if l.sandboxTest(t).Command("gcc", "--version").Run(t.Context()) != nil {
		runtimetest.Lacks(t, "there is no gcc")
	}
	res := l.run(t, exec.Snippet{Language: "c", Code: "int main(void) { return undefined; }"})
	is.True(strings.HasPrefix(res.Stderr, "main.c: In function"))
	res = l.run(t, exec.Snippet{Session: res.Session, Language: "c", Code: "int main(void) { int x; return 0; }\n#warning careful"})
	plain(t, res, "") // a clean run is one without remarks
}

func otherOrganisation(t *testing.T, rt *sandbox.Runtime) {
	is := is.New(t)
	ada := newLab(t, rt.For(sandbox.Owner{Org: "one", Actor: "ada"}), exec.Config{})
	eve := newLab(t, rt.For(sandbox.Owner{Org: "two", Actor: "eve"}), exec.Config{})
	f := ada.upload(t, "", "secret.txt", "s")
	res := eve.sh(t, f.Session, "cat secret.txt", input(f))
	is.True(res.Session != f.Session)
	is.Equal(res.Missing, []string{f.ID})
	is.True(strings.Contains(res.Stderr, "there is no such session"))
	_, _, err := eve.Open(bounded(t), f.Session, f.ID)
	is.True(errors.Is(err, sandbox.ErrNotFound))
	is.True(errors.Is(eve.Remove(bounded(t), f.Session, f.ID), sandbox.ErrNotFound))
	for _, err := range eve.Files(bounded(t), f.Session) {
		is.True(errors.Is(err, sandbox.ErrNotFound))
	}
	is.Equal(ada.read(t, f.Session, f.ID), "s")
}

// Each file that a user attaches is a session. No engine is started for any of
// them before a program wants it, and then only the one that it runs in.
func attachments(t *testing.T, rt *sandbox.Runtime) {
	is := is.New(t)
	owner := sandbox.Owner{Org: "attachments"}
	l := newLab(t, rt.For(owner), exec.Config{Spec: sandbox.Spec{Parked: true}}) // which is of no consequence
	var inputs []exec.Input
	for i := range 5 {
		f := l.upload(t, "", fmt.Sprintf("in/%d.txt", i), fmt.Sprint(i))
		inputs = append(inputs, input(f))
		is.Equal(f.Hash, hashOf(fmt.Sprint(i)))
		is.Equal(l.read(t, f.Session, f.ID), fmt.Sprint(i)) // it is there to be downloaded
	}
	second, err := l.Upload(bounded(t), exec.Upload{Session: inputs[0].Session, Name: "more.txt", Content: strings.NewReader("more"), ReadOnly: true})
	is.NoErr(err)
	is.Equal(second.Session, inputs[0].Session)
	running := func() (list []string) {
		for info, err := range rt.For(owner).List(t.Context()) {
			is.NoErr(err)
			if info.Status == sandbox.StatusRunning {
				list = append(list, info.ID)
			}
		}
		return list
	}
	sb, err := rt.Attach(t.Context(), inputs[0].Session)
	is.NoErr(err)
	st, err := sb.Stage(t.Context()) // somebody else puts files there
	is.NoErr(err)
	is.NoErr(st.WriteFile(t.Context(), "other.txt", strings.NewReader("other"), 0o644))
	is.NoErr(st.WriteFile(t.Context(), ".hidden/other.txt", strings.NewReader("other"), 0o644))
	is.NoErr(st.Close())
	is.Equal(l.list(t, inputs[0].Session), []string{"in/0.txt", "more.txt", "other.txt"})
	is.Equal(l.read(t, inputs[0].Session, exec.FileID(inputs[0].Session, "other.txt")), "other")
	for f, err := range l.Files(bounded(t), inputs[1].Session) {
		is.NoErr(err)
		is.Equal(f.Hash, hashOf("1"))
	}
	ended := l.upload(t, "", "ended.txt", "x")
	is.NoErr(rt.End(t.Context(), ended.Session))
	is.True(l.upload(t, ended.Session, "ended.txt", "x").Session != ended.Session)
	is.Equal(len(running()), 0)
	res := l.sh(t, "", "cat in/*.txt more.txt; echo spoilt > more.txt", append(inputs, input(second))...)
	plain(t, res, "01234more")
	is.Equal(paths(res), "") // an input is no result
	is.Equal(running(), []string{res.Session})
	is.Equal(res.Session, inputs[0].Session)
	is.Equal(l.list(t, res.Session), []string{"in/0.txt", "in/1.txt", "in/2.txt", "in/3.txt", "in/4.txt", "more.txt", "other.txt"})
	is.Equal(l.read(t, res.Session, second.ID), "more") // what is done to it is dropped
}

// A session that was leased for an upload which fails is not there any more.
func failedUploads(t *testing.T, rt *sandbox.Runtime) {
	is := is.New(t)
	owner := sandbox.Owner{Org: "failed-uploads"}
	list := func() (ids []string) {
		for info, err := range rt.For(owner).List(t.Context()) {
			is.NoErr(err)
			ids = append(ids, info.ID)
		}
		return ids
	}
	broken := errors.New("the line is broken")
	for _, cfg := range []exec.Config{{}, {Spec: sandbox.Spec{Project: "running"}}} {
		l := newLab(t, rt.For(owner), cfg)
		for _, session := range []string{"", strings.Repeat("x", 21)} {
			_, err := l.Upload(bounded(t), exec.Upload{Session: session, Name: "a.txt", Content: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))})
			is.True(errors.Is(err, broken))
			_, err = l.Upload(bounded(t), exec.Upload{Session: session, Name: strings.Repeat("a", 300), Content: strings.NewReader("x")})
			is.True(err != nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err = l.Upload(ctx, exec.Upload{Session: session, Name: "a.txt", Content: readerFunc(func([]byte) (int, error) {
				cancel()
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})})
			is.True(errors.Is(err, context.Canceled))
			is.Equal(len(list()), 0)
		}
	}
	l := newLab(t, rt.For(owner), exec.Config{})
	f := l.upload(t, "", "a.txt", "kept")
	_, err := l.Upload(bounded(t), exec.Upload{Session: f.Session, Name: "b.txt", Content: iotest.ErrReader(broken)})
	is.True(errors.Is(err, broken))
	is.Equal(list(), []string{f.Session})
	is.Equal(l.read(t, f.Session, f.ID), "kept")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func parkedSession(t *testing.T, rt *sandbox.Runtime) {
	is := is.New(t)
	l := newLab(t, rt, exec.Config{Spec: sandbox.Spec{Disk: true}})
	f := l.upload(t, "", "a.txt", "kept")
	park := func() {
		sb, err := rt.Attach(t.Context(), f.Session)
		is.NoErr(err)
		is.NoErr(sb.Pause(bounded(t)))
	}
	park()
	is.Equal(l.read(t, f.Session, f.ID), "kept") // it comes back for a file
	park()
	res := l.sh(t, "", "cat a.txt", input(f)) // and for a run
	plain(t, res, "kept")
	is.Equal(res.Session, f.Session)
	park()
	is.Equal(l.upload(t, f.Session, "b.txt", "x").Session, f.Session)
}
