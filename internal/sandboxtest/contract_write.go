package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// writeCases are about writing files.
var writeCases = cases{
	{"parents are made", makesParents},
	{"empty file", emptyFile},
	{"mode", modes},
	{"read-only file", readOnly},
	{"onto a directory", ontoDirectory},
	{"below a file", belowFile},
	{"a reader keeps the old file", keepsOld},
	{"writers at once", writersAtOnce},
	{"source that fails", brokenSource},
	{"source that is cut", cutSource},
	{"context ends under a source that blocks", blockedSource},
	{"context that has ended", endedWrite},
}

func makesParents(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "makes-parents/a/b/file", "x", 0o600)
	is.Equal(read(t, sb, "makes-parents/a/b/file"), "x")
	is.Equal(outputOf(t, sb, "sh", "-c", "echo more > makes-parents/a/b/other; cat makes-parents/a/b/other"), "more\n") // they are the user's
}

func emptyFile(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "empty-file", "", 0o644)
	is.Equal(read(t, sb, "empty-file"), "")
	write(t, sb, "empty-file", "content", 0o644)
	write(t, sb, "empty-file", "", 0o644)
	is.Equal(read(t, sb, "empty-file"), "")
}

func modes(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	for perm, want := range map[fs.FileMode]fs.FileMode{0o644: 0o644, 0o600: 0o600, 0o755: 0o755, 0o666: 0o644, 0o777: 0o755} {
		name := fmt.Sprintf("modes/%o", perm)
		write(t, sb, name, "", perm)
		is.Equal(stat(t, sb, name).Mode(), want) // less the usual mask
	}
	write(t, sb, "modes/755", "new", 0o600)
	is.Equal(stat(t, sb, "modes/755").Mode(), fs.FileMode(0o755)) // an existing file keeps its own
	is.Equal(read(t, sb, "modes/755"), "new")
}

func readOnly(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "read-only", "old", 0o444)
	write(t, sb, "read-only", "new", 0o644) // as an embed.FS is copied twice
	is.Equal(read(t, sb, "read-only"), "new")
	is.Equal(stat(t, sb, "read-only").Mode(), fs.FileMode(0o444))
	write(t, sb, "write-only", "secret", 0o200)
	_, err := fs.ReadFile(sb.FS(bounded(t)), "write-only")
	is.True(errors.Is(err, fs.ErrPermission))
}

func ontoDirectory(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "onto-directory/sub/file", "x", 0o644)
	is.True(sb.WriteFile(bounded(t), "onto-directory/sub", strings.NewReader("y"), 0o644) != nil)
	is.Equal(list(t, sb, "onto-directory"), []string{"sub"})
	is.Equal(read(t, sb, "onto-directory/sub/file"), "x")
}

func belowFile(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "below-file", "x", 0o644)
	is.True(sb.WriteFile(bounded(t), "below-file/y", strings.NewReader("y"), 0o644) != nil)
	is.Equal(read(t, sb, "below-file"), "x")
}

func keepsOld(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	old := pattern(8<<20, 3)
	write(t, sb, "keeps-old", old, 0o644)
	f, err := sb.FS(bounded(t)).Open("keeps-old")
	is.NoErr(err)
	defer f.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(f, first)
	is.NoErr(err)
	write(t, sb, "keeps-old", "new", 0o644)
	is.Equal(read(t, sb, "keeps-old"), "new")
	rest, err := io.ReadAll(f)
	is.NoErr(err)
	is.True(string(first)+string(rest) == old) // to its end
}

// writersAtOnce replaces a file from many sides while it is read.
func writersAtOnce(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	const size = 300_000
	version := func(i int) string { return strings.Repeat(string(rune('a'+i)), size) }
	write(t, sb, "writers-at-once/file", version(0), 0o644)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		wg.Go(func() {
			if i%2 == 0 {
				errs[i] = sb.WriteFile(ctx, "writers-at-once/file", strings.NewReader(version(i)), 0o644)
				return
			}
			b, err := fs.ReadFile(sb.FS(ctx), "writers-at-once/file")
			if err == nil && (len(b) != size || strings.Trim(string(b), string(b[:1])) != "") {
				err = errors.New("a mixture of versions")
			}
			errs[i] = err
		})
	}
	wg.Wait()
	is.NoErr(errors.Join(errs...))
	last := read(t, sb, "writers-at-once/file")
	is.Equal(len(last), size)
	is.Equal(strings.Trim(last, last[:1]), "")
	is.Equal(list(t, sb, "writers-at-once"), []string{"file"}) // and no leavings
}

// refusesSource writes from a source that fails, over a file and as a new one.
func refusesSource(t *testing.T, sb *sandbox.Sandbox, dir string, why error) {
	t.Helper()
	is := is.New(t)
	write(t, sb, dir+"/file", "old", 0o644)
	for _, n := range []int{0, 10, 3 << 20} {
		for _, name := range []string{dir + "/file", dir + "/new"} {
			src := io.MultiReader(strings.NewReader(pattern(n, 0)), brokenReader{why})
			err := sb.WriteFile(bounded(t), name, src, 0o644)
			is.True(errors.Is(err, why))
			is.Equal(list(t, sb, dir), []string{"file"}) // neither a new file nor half of one
			is.Equal(read(t, sb, dir+"/file"), "old")
		}
	}
}

func brokenSource(t *testing.T, sb *sandbox.Sandbox) {
	refusesSource(t, sb, "broken-source", errBroken)
}

func cutSource(t *testing.T, sb *sandbox.Sandbox) {
	refusesSource(t, sb, "cut-source", io.ErrUnexpectedEOF)
}

func blockedSource(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "blocked-source/file", "old", 0o644)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src, w := io.Pipe()
	defer w.Close()
	done := make(chan error, 1)
	go func() { done <- sb.WriteFile(ctx, "blocked-source/file", src, 0o644) }()
	is.NoErr(within(t, limit, func() error {
		_, err := io.WriteString(w, "half of the") // returns when it is read
		return err
	}))
	cancel()
	err := await(t, soon, done)
	is.True(errors.Is(err, context.Canceled))
	is.Equal(list(t, sb, "blocked-source"), []string{"file"})
	is.Equal(read(t, sb, "blocked-source/file"), "old")
}

func endedWrite(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "ended-write/file", "old", 0o644)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.True(errors.Is(sb.WriteFile(ctx, "ended-write/file", strings.NewReader("new"), 0o644), context.Canceled))
	is.Equal(read(t, sb, "ended-write/file"), "old")
}
