package exec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

// What holds over every driver, named by what the clients of code interpreters
// expect.
var contract = []struct {
	name string
	test func(t *testing.T, l lab)
}{
	{"reply-shape", replyShape},
	{"non-zero-exit", nonZeroExit},
	{"exit-code-only", exitCodeOnly},
	{"empty-output", emptyOutput},
	{"stdout-is-exact", stdoutIsExact},
	{"args", args},
	{"mnt-data-is-the-working-directory", workingDirectory},
	{"produced-file", producedFile},
	{"no-phantom-files", noPhantomFiles},
	{"changed-file", changedFile},
	{"touched-file", touchedFile},
	{"uploaded-file-read", uploadedFileRead},
	{"full-ids-pass-the-host-route", idsPassTheHostRoute},
	{"url-unsafe-file-name", urlUnsafeFileName},
	{"nested-output", nestedOutput},
	{"unicode-file-name", unicodeFileName},
	{"upload-unicode-name", uploadUnicodeName},
	{"upload-listed-and-downloaded", uploadListedAndDownloaded},
	{"upload-without-content-length", uploadOfUnknownLength},
	{"files-is-a-bare-array", filesOfAnEmptySession},
	{"session-continued-by-tool-node", continuedByFiles},
	{"session-continued-by-id", continuedByID},
	{"files-from-two-sessions", filesFromTwoSessions},
	{"file-carried-in-from-another-session", carriedIn},
	{"two-inputs-with-one-name", twoInputsWithOneName},
	{"full-input-placed-under-its-given-name", placedUnderItsName},
	{"missing-input-is-reported", missingInput},
	{"lost-name-is-invalid", invalidInputName},
	{"unchanged-input", unchangedInput},
	{"deleted-input", deletedInput},
	{"full-read-only-input", readOnlyInput},
	{"read-only-input-in-its-own-session", readOnlyInPlace},
	{"full-delete", fullDelete},
	{"download-unknown-file", downloadUnknownFile},
	{"upload-path-does-not-escape", uploadDoesNotEscape},
	{"download-traversal", downloadTraversal},
	{"links-are-not-followed", linksAreNotFollowed},
	{"hidden-folders", hiddenFolders},
	{"large-output", largeOutput},
	{"live-output", liveOutput},
	{"stdin", stdin},
	{"runaway-program-is-stopped", runaway},
	{"client-disconnect", clientGone},
	{"parallel-runs-are-apart", parallelRuns},
	{"parallel-runs-in-one-session-take-turns", takeTurns},
	{"parallel-uploads", parallelUploads},
	{"expired-session", expiredSession},
	{"session-ends-mid-run", sessionEndsMidRun},
	{"unknown-session", unknownSession},
	{"bad-snippets", badSnippets},
	{"toolchain-missing", toolchainMissing},
}

func runContract(t *testing.T, sandboxes sandboxtest.Sandboxes) {
	l := newLab(t, sandboxes, exec.Config{MaxOutput: 64 << 10})
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) { c.test(t, l) })
	}
}

func TestOverMemory(t *testing.T) {
	m := sandboxtest.NewMemory()
	t.Cleanup(func() { m.Close() })
	runContract(t, m)
}

func TestOverScope(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	runContract(t, rt.For(sandbox.Owner{Org: "hanzo", Actor: "ada"}))
}

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

func producedFile(t *testing.T, l lab) {
	is := is.New(t)
	res := l.sh(t, "", "echo one > out.txt; echo two > other.txt")
	is.Equal(paths(res), "other.txt out.txt")
	f := res.Files[1]
	is.Equal(f.ID, exec.FileID(res.Session, "out.txt"))
	is.Equal(f.Session, res.Session) // the one that the reply names
	is.Equal(f.Size, int64(4))
	is.Equal(f.Mode, fs.FileMode(0o644))
	is.Equal(f.Hash, "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806")
	is.True(time.Since(f.ModTime) < time.Minute)
	is.Equal(l.read(t, res.Session, f.ID), "one\n")
	is.Equal(l.read(t, res.Session, f.Path), "one\n")                  // the path is as good
	is.Equal(l.list(t, res.Session), []string{"other.txt", "out.txt"}) // nothing of the program's own
}

func noPhantomFiles(t *testing.T, l lab) {
	is := is.New(t)
	first := l.sh(t, "", "echo one > out.txt")
	is.Equal(paths(first), "out.txt")
	is.Equal(paths(l.sh(t, first.Session, "cat out.txt")), "")
	is.Equal(paths(l.sh(t, first.Session, "echo 2 > new.txt")), "new.txt")
}

func changedFile(t *testing.T, l lab) {
	is := is.New(t)
	first := l.sh(t, "", "echo one > out.txt; echo same > same.txt")
	second := l.sh(t, first.Session, "echo two > out.txt")
	is.Equal(paths(second), "out.txt")
	is.Equal(second.Files[0].ID, first.Files[0].ID)      // the same file
	is.True(second.Files[0].Hash != first.Files[0].Hash) // with other content
}

func touchedFile(t *testing.T, l lab) {
	is := is.New(t)
	first := l.sh(t, "", "echo one > out.txt")
	is.Equal(paths(l.sh(t, first.Session, "echo one > out.txt")), "") // as it was
	is.Equal(paths(l.sh(t, first.Session, "echo two > out.txt; echo one > out.txt")), "")
}

func uploadedFileRead(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "data.csv", "a,b\n")
	res := l.sh(t, "", "cat data.csv", input(f))
	plain(t, res, "a,b\n")
	is.Equal(paths(res), "") // the user's own is not offered back
	is.Equal(res.Session, f.Session)
}

func idsPassTheHostRoute(t *testing.T, l lab) {
	is := is.New(t)
	route := regexp.MustCompile(`^[A-Za-z0-9_-]{21}$`)
	f := l.upload(t, "", "data.csv", "a")
	is.True(route.MatchString(f.Session))
	is.True(route.MatchString(f.ID))
	is.Equal(f.ID, exec.FileID(f.Session, "data.csv"))
	is.True(f.ID != exec.FileID(f.Session, "data.csw"))
	is.True(f.ID != exec.FileID(f.Session[1:], "data.csv"))
}

func urlUnsafeFileName(t *testing.T, l lab) {
	is := is.New(t)
	name := `re port #1?a=b%20&"c".txt`
	f := l.upload(t, "", name, "x")
	is.Equal(f.Path, name)
	is.Equal(l.read(t, f.Session, f.ID), "x")
	is.Equal(l.read(t, f.Session, name), "x")
	plain(t, l.sh(t, f.Session, "cat 're port #1?a=b%20&\"c\".txt'"), "x")
}

func nestedOutput(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "a/b/seed", "x")
	res := l.sh(t, f.Session, "echo y > a/b/out.txt")
	is.Equal(paths(res), "a/b/out.txt")
	is.Equal(l.read(t, f.Session, res.Files[0].ID), "y\n")
	is.Equal(l.list(t, f.Session), []string{"a/b/out.txt", "a/b/seed"}) // every file reported has a row
	other := l.sh(t, "", "cat a/b/out.txt", input(res.Files[0]))
	plain(t, other, "y\n")
}

func unicodeFileName(t *testing.T, l lab) {
	is := is.New(t)
	res := l.sh(t, "", "echo x > '日本語 é.txt'")
	is.Equal(paths(res), "日本語 é.txt")
	is.Equal(l.read(t, res.Session, res.Files[0].ID), "x\n")
}

func uploadUnicodeName(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "Übersicht 表.csv", "x")
	is.Equal(f.Path, "Übersicht 表.csv")
	plain(t, l.sh(t, f.Session, "cat 'Übersicht 表.csv'"), "x")
}

func uploadListedAndDownloaded(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "data.csv", "a,b\n")
	for row, err := range l.Files(bounded(t), f.Session) {
		is.NoErr(err)
		is.Equal(row.ID, f.ID)
		is.Equal(row.Path, "data.csv")
		is.Equal(row.Size, int64(4))
		is.True(time.Since(row.ModTime) < time.Minute)
	}
	file, about, err := l.Open(bounded(t), f.Session, f.ID)
	is.NoErr(err)
	is.Equal(about.Path, "data.csv")
	is.NoErr(file.Close())
	is.Equal(l.read(t, f.Session, f.ID), "a,b\n")
}

func uploadOfUnknownLength(t *testing.T, l lab) {
	is := is.New(t)
	r, w := io.Pipe()
	go func() {
		for range 100 {
			io.WriteString(w, strings.Repeat("x", 1000))
		}
		w.CloseWithError(nil)
	}()
	f, err := l.Upload(bounded(t), exec.Upload{Name: "big", Content: r})
	is.NoErr(err)
	l.endLater(t, f.Session)
	is.Equal(f.Size, int64(100_000))

	broken := errors.New("the client went away")
	_, err = l.Upload(bounded(t), exec.Upload{Session: f.Session, Name: "half", Content: io.MultiReader(strings.NewReader("half"), failing{broken})})
	is.True(errors.Is(err, broken))
	is.Equal(l.list(t, f.Session), []string{"big"}) // no half of a file
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func filesOfAnEmptySession(t *testing.T, l lab) {
	is := is.New(t)
	res := l.sh(t, "", "true")
	is.Equal(l.list(t, res.Session), []string{})
}

func continuedByFiles(t *testing.T, l lab) {
	is := is.New(t)
	first := l.sh(t, "", "echo one > a.txt")
	second := l.sh(t, "", "cat a.txt; echo two > b.txt", input(first.Files[0])) // no session named
	plain(t, second, "one\n")
	is.Equal(second.Session, first.Session)
	third := l.sh(t, "", "cat a.txt b.txt", input(first.Files[0]), input(second.Files[0]))
	plain(t, third, "one\ntwo\n")
}

func continuedByID(t *testing.T, l lab) {
	is := is.New(t)
	first := l.sh(t, "", "echo one > a.txt")
	second := l.sh(t, first.Session, "cat a.txt")
	plain(t, second, "one\n")
	is.Equal(second.Session, first.Session)
}

func filesFromTwoSessions(t *testing.T, l lab) {
	is := is.New(t)
	a, b, c := l.upload(t, "", "a.txt", "1"), l.upload(t, "", "b.txt", "2"), l.upload(t, "", "c.txt", "3")
	more := l.upload(t, b.Session, "d.txt", "4")
	res := l.sh(t, "", "cat a.txt b.txt c.txt d.txt", input(a), input(b), input(c), input(more))
	plain(t, res, "1234")
	is.Equal(res.Session, b.Session) // where most of them live
	is.Equal(paths(res), "")
	res = l.sh(t, "", "cat a.txt c.txt", input(a), input(c))
	is.Equal(res.Session, a.Session) // the first of equals
}

func carriedIn(t *testing.T, l lab) {
	is := is.New(t)
	there := l.upload(t, "", "data.csv", "a,b\n")
	here := l.sh(t, "", "true")
	res := l.sh(t, here.Session, "cat data.csv; echo c > data.csv", input(there))
	plain(t, res, "a,b\n")
	is.Equal(res.Session, here.Session)
	is.Equal(paths(res), "data.csv") // by what the program made of it
	is.Equal(res.Files[0].ID, exec.FileID(here.Session, "data.csv"))
	is.Equal(l.read(t, there.Session, there.ID), "a,b\n") // the original is as it was
}

func twoInputsWithOneName(t *testing.T, l lab) {
	a, b := l.upload(t, "", "data.csv", "first"), l.upload(t, "", "data.csv", "second")
	here := l.sh(t, "", "true")
	plain(t, l.sh(t, here.Session, "cat data.csv", input(a), input(b)), "second")
	plain(t, l.sh(t, here.Session, "cat data.csv", input(b), input(a)), "first")
}

func placedUnderItsName(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "raw name", "x")
	in := input(f)
	in.Name = "deep/down/clean-name.txt"
	res := l.sh(t, "", "cat deep/down/clean-name.txt 'raw name'", in)
	plain(t, res, "xx") // in its own session
	is.Equal(res.Session, f.Session)
	is.Equal(paths(res), "")
	here := l.sh(t, "", "true")
	in.Name = "/mnt/data/absolute.txt"
	plain(t, l.sh(t, here.Session, "cat absolute.txt", in), "x")
}

func missingInput(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "here.txt", "x")
	gone := l.sh(t, "", "true")
	is.NoErr(l.sandboxes.End(bounded(t), gone.Session))
	res := l.sh(t, "", "cat here.txt; echo err >&2", input(f),
		exec.Input{Session: f.Session, File: "none.txt"},
		exec.Input{Session: f.Session, File: "abcdefghijklmnopqrstu", Name: "lost.csv"},
		exec.Input{Session: strings.Repeat("z", 21), File: "a", Name: "a.csv"},
		exec.Input{Session: "../../etc", File: "passwd"},
		exec.Input{Session: gone.Session, File: "b.csv"})
	is.Equal(res.Stdout, "x") // the run goes on
	is.True(res.Success())
	is.Equal(res.Stderr, `exec: input "none.txt" is missing: there is no such file
exec: input "lost.csv" is missing: there is no such file
exec: input "a.csv" is missing: there is no such session
exec: input "passwd" is missing: there is no such session
exec: input "b.csv" is missing: its session has ended
err
`)
	is.Equal(strings.Join(res.Missing, " "), "none.txt lost.csv a.csv passwd b.csv")
	is.Equal(res.Session, f.Session)
}

func invalidInputName(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "x", "x")
	for _, name := range []string{"../x", "a/../../x", "/etc/passwd", "a\x00b", ".exec/record.json", "dir/", strings.Repeat("n", 256), "\xff"} {
		in := input(f)
		in.Name = name
		_, err := l.Run(bounded(t), exec.Snippet{Language: "sh", Code: "true", Inputs: []exec.Input{in}})
		is.True(errors.Is(err, sandbox.ErrInvalid)) // a name that climbs out
	}
}

func unchangedInput(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sh(t, "", "true")
	inputs := make([]exec.Input, 0, 12)
	for i := range 12 {
		inputs = append(inputs, input(l.upload(t, here.Session, fmt.Sprintf("in%d.txt", i), "x")))
	}
	there := l.upload(t, "", "carried.txt", "y")
	res := l.sh(t, here.Session, "echo x > new.txt; cat in0.txt carried.txt; echo -n x > in3.txt; echo -n y > carried.txt", append(inputs, input(there))...)
	plain(t, res, "xy")
	is.Equal(paths(res), "new.txt")
}

func deletedInput(t *testing.T, l lab) {
	is := is.New(t)
	if _, ok := l.sandboxes.(*sandboxtest.Memory); ok {
		t.Skip("its sandboxes have no rm")
	}
	f := l.upload(t, "", "a.txt", "x")
	g := l.upload(t, f.Session, "b.txt", "x")
	res := l.sh(t, "", "rm a.txt", input(f), input(g))
	plain(t, res, "")
	is.Equal(res.Deleted, []string{"a.txt"})
	is.Equal(paths(res), "")
}

func readOnlyInput(t *testing.T, l lab) {
	is := is.New(t)
	f, err := l.Upload(bounded(t), exec.Upload{Name: "skill.sh", Content: strings.NewReader("echo skill\n"), ReadOnly: true})
	is.NoErr(err)
	l.endLater(t, f.Session)
	is.True(f.ReadOnly)
	res := l.sh(t, "", "sh skill.sh; echo echo spoilt > skill.sh; echo new > out.txt", input(f))
	plain(t, res, "skill\n")
	is.True(res.Session != f.Session) // programs do not get at the original
	is.Equal(paths(res), "out.txt")
	again := l.sh(t, res.Session, "sh skill.sh")
	plain(t, again, "skill\n") // the edit is dropped
	is.Equal(l.read(t, f.Session, f.ID), "echo skill\n")
}

func readOnlyInPlace(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "data.csv", "pristine")
	in := input(f)
	in.ReadOnly = true
	for range 2 {
		res := l.sh(t, f.Session, "cat data.csv; echo spoilt > data.csv", in)
		plain(t, res, "pristine")
		is.Equal(paths(res), "")
		is.Equal(len(res.Deleted), 0)
	}
	is.Equal(l.read(t, f.Session, f.ID), "pristine")
	is.Equal(l.list(t, f.Session), []string{"data.csv"})
}

func fullDelete(t *testing.T, l lab) {
	is := is.New(t)
	f, g := l.upload(t, "", "a.txt", "x"), exec.File{}
	g = l.upload(t, f.Session, "b.txt", "y")
	is.NoErr(l.Remove(bounded(t), f.Session, f.ID))
	is.True(errors.Is(l.Remove(bounded(t), f.Session, f.ID), fs.ErrNotExist))
	is.NoErr(l.Remove(bounded(t), f.Session, g.Path))
	is.Equal(l.list(t, f.Session), []string{})
	f = l.upload(t, f.Session, "a.txt", "x")
	is.Equal(l.read(t, f.Session, f.ID), "x")
}

func downloadUnknownFile(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "a.txt", "x")
	for _, file := range []string{"b.txt", "abcdefghijklmnopqrstu", "a.txt/b", ".exec/none"} {
		_, _, err := l.Open(bounded(t), f.Session, file)
		is.True(err != nil)
		is.True(errors.Is(err, fs.ErrNotExist) || errors.Is(err, sandbox.ErrInvalid) || strings.Contains(err.Error(), "not a directory"))
	}
	_, _, err := l.Open(bounded(t), strings.Repeat("z", 21), f.ID)
	is.True(errors.Is(err, sandbox.ErrNotFound))
	is.True(errors.Is(l.Remove(bounded(t), strings.Repeat("z", 21), f.ID), sandbox.ErrNotFound))
	for _, err := range l.Files(bounded(t), strings.Repeat("z", 21)) {
		is.True(errors.Is(err, sandbox.ErrNotFound))
	}
}

func uploadDoesNotEscape(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "./a//b/../c.txt", "x")
	is.Equal(f.Path, "a/c.txt")
	for _, name := range []string{
		"", ".", "..", "../x", "a/../../x", "/etc/passwd", "/mnt/data/x", "a/", "x\x00y", "\xff.txt",
		".exec/record.json", ".exec", ".upload-1", strings.Repeat("n", 256), "a/" + strings.Repeat("n", 256),
	} {
		_, err := l.Upload(bounded(t), exec.Upload{Session: f.Session, Name: name, Content: strings.NewReader("x")})
		is.True(errors.Is(err, sandbox.ErrInvalid))
	}
	_, err := l.Upload(bounded(t), exec.Upload{Session: f.Session, Name: strings.Repeat("n", 255), Content: strings.NewReader("")})
	is.NoErr(err) // as long as a name can be, and empty
	is.Equal(l.list(t, f.Session)[0], "a/c.txt")
}

func downloadTraversal(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "a.txt", "x")
	for _, file := range []string{"../../etc/passwd", "/etc/passwd", "..", ".", "", "a/../../../etc/passwd", ".exec/record.json", "a\x00"} {
		_, _, err := l.Open(bounded(t), f.Session, file)
		is.True(errors.Is(err, sandbox.ErrInvalid))
		is.True(errors.Is(l.Remove(bounded(t), f.Session, file), sandbox.ErrInvalid))
	}
	is.Equal(l.read(t, f.Session, "/mnt/data/a.txt"), "x") // as programs name it
}

func linksAreNotFollowed(t *testing.T, l lab) {
	is := is.New(t)
	res := l.sh(t, "", "echo x > real.txt; ln -s /etc/passwd out.txt; ln -s real.txt in.txt; ln -s / root; ln -s . self")
	is.Equal(paths(res), "real.txt")
	is.Equal(l.list(t, res.Session), []string{"real.txt"})
	for _, name := range []string{"out.txt", "in.txt", "root", "self"} {
		_, _, err := l.Open(bounded(t), res.Session, name)
		is.True(errors.Is(err, sandbox.ErrInvalid))
		in := exec.Input{Session: res.Session, File: name}
		here := l.sh(t, "", "true", in)
		is.Equal(here.Missing, []string{name})
	}
}

func hiddenFolders(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", ".skills/x/run.sh", "echo hi\n")
	g := l.upload(t, f.Session, "node_modules/a.js", "x")
	l.upload(t, f.Session, "__pycache__/a.pyc", "x")
	is.Equal(l.list(t, f.Session), []string{".skills/x/run.sh", "__pycache__/a.pyc", "node_modules/a.js"}) // what was put there is shown
	res := l.sh(t, f.Session, "sh .skills/x/run.sh; echo y > .skills/x/out; echo x > .hidden")
	plain(t, res, "hi\n")
	is.Equal(paths(res), ".hidden .skills/x/out")
	is.NoErr(l.Remove(bounded(t), f.Session, g.ID))
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

func clientGone(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sh(t, "", "true")
	gone := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(bounded(t))
	out := &watcher{seen: func() { cancel(gone) }}
	res, err := l.Run(ctx, exec.Snippet{Session: here.Session, Language: "sh", Code: "echo started; sleep 100; echo late > late.txt", Stdout: out})
	is.True(errors.Is(err, gone))
	is.Equal(res.Stdout, "started\n")
	is.Equal(res.Cause, sandbox.CauseKilled)
	is.Equal(l.list(t, here.Session), []string{}) // the session is as usable as before
	plain(t, l.sh(t, here.Session, "echo next"), "next\n")
}

// A watcher says once that something was written.
type watcher struct {
	once sync.Once
	seen func()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.once.Do(w.seen)
	return len(p), nil
}

func parallelRuns(t *testing.T, l lab) {
	is := is.New(t)
	results := make([]*exec.Result, 4)
	errs := make([]error, len(results))
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			results[i], errs[i] = l.Run(bounded(t), exec.Snippet{Language: "sh", Code: fmt.Sprintf("echo %d > out.txt; cat out.txt", i)})
		})
	}
	all.Wait()
	sessions := map[string]bool{}
	for i, res := range results {
		is.NoErr(errs[i])
		l.endLater(t, res.Session)
		plain(t, res, fmt.Sprintf("%d\n", i))
		sessions[res.Session] = true
		is.Equal(paths(res), "out.txt")
	}
	is.Equal(len(sessions), len(results))
}

func takeTurns(t *testing.T, l lab) {
	is := is.New(t)
	here := l.upload(t, "", "lock", "")
	other := l.With(l.sandboxes) // as of another request
	var all sync.WaitGroup
	results := make([]*exec.Result, 6)
	errs := make([]error, len(results))
	for i := range results {
		it := l.Interpreter
		if i%2 == 1 {
			it = other
		}
		all.Go(func() {
			code := fmt.Sprintf("cat lock; echo taken > lock; sleep 0.05; echo -n > lock; echo %d > out%d.txt", i, i)
			results[i], errs[i] = it.Run(bounded(t), exec.Snippet{Session: here.Session, Language: "sh", Code: code})
		})
	}
	all.Wait()
	for i, res := range results {
		is.NoErr(errs[i])
		is.Equal(res.Stdout, "")                          // no other ran meanwhile
		is.Equal(paths(res), fmt.Sprintf("out%d.txt", i)) // its own file, and none of another's
	}
}

func parallelUploads(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sh(t, "", "true")
	errs := make([]error, 20)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, errs[i] = l.Upload(bounded(t), exec.Upload{Session: here.Session, Name: fmt.Sprintf("in%d", i), Content: strings.NewReader("x"), ReadOnly: i%2 == 0})
		})
	}
	all.Wait()
	readOnly := 0
	for f, err := range l.Files(bounded(t), here.Session) {
		is.NoErr(err)
		if f.ReadOnly {
			readOnly++
		}
	}
	is.NoErr(errors.Join(errs...))
	is.Equal(readOnly, 10) // none has been forgotten
}

func expiredSession(t *testing.T, l lab) {
	is := is.New(t)
	old := l.sh(t, "", "echo x > a.txt")
	is.NoErr(l.sandboxes.End(bounded(t), old.Session))
	for _, err := range l.Files(bounded(t), old.Session) {
		is.True(errors.Is(err, sandbox.ErrEnded))
	}
	res := l.sh(t, old.Session, "echo hi")
	plain(t, res, "hi\n")
	is.True(res.Session != old.Session) // a fresh one, and it says so
	f := l.upload(t, old.Session, "a.txt", "again")
	is.True(f.Session != old.Session)
	is.Equal(l.read(t, f.Session, f.ID), "again")
}

func sessionEndsMidRun(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sh(t, "", "true")
	out := &watcher{seen: func() { go l.sandboxes.End(context.Background(), here.Session) }}
	res := l.run(t, exec.Snippet{Session: here.Session, Code: "echo started; sleep 100", Stdout: out})
	is.Equal(res.Stdout, "started\n")
	is.Equal(res.Cause, sandbox.CauseEnded)
	is.Equal(res.Stderr, "exec: stopped: the session has ended, and its files are gone\n")
	next := l.sh(t, here.Session, "echo next")
	plain(t, next, "next\n")
	is.True(next.Session != here.Session)
}

func unknownSession(t *testing.T, l lab) {
	is := is.New(t)
	for _, id := range []string{"nosuchsession", "../../etc", "a\x00b", strings.Repeat("x", 1000)} {
		res := l.sh(t, id, "echo hi")
		plain(t, res, "hi\n")
		is.True(res.Session != id)
	}
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
