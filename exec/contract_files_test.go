//go:build linux

package exec_test

import (
	"errors"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/sandbox"
)

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

func fullDelete(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "a.txt", "x")
	g := l.upload(t, f.Session, "b.txt", "y")
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
