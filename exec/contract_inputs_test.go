//go:build linux

package exec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

func uploadedFileRead(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "data.csv", "a,b\n")
	res := l.sh(t, "", "cat data.csv", input(f))
	plain(t, res, "a,b\n")
	is.Equal(paths(res), "") // the user's own is not offered back
	is.Equal(res.Session, f.Session)
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
		res, err := l.Run(bounded(t), exec.Snippet{Language: "sh", Code: "true", Inputs: []exec.Input{in}})
		is.True(errors.Is(err, sandbox.ErrInvalid)) // a name that climbs out
		is.Equal(res != nil, name == "/etc/passwd") // which only the session can tell
		if res != nil {
			is.Equal(res.Session, f.Session) // it is not lost on the caller
			is.True(!res.Success())
		}
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
