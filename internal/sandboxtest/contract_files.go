package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// fileCases are about reading files.
var fileCases = cases{
	{"a program sees a file", programSees},
	{"a program's file is seen", programWrote},
	{"missing file", missingFile},
	{"directory as a file", readDirectory},
	{"neither file nor directory", readDevice},
	{"absolute name", absoluteName},
	{"large file", largeFile},
	{"description", description},
	{"context that has ended", endedFS},
}

// testFS runs on a sandbox whose files are its own.
func testFS(t *testing.T, sb *sandbox.Sandbox, able bool) {
	is := is.New(t)
	write(t, sb, "top.txt", "top", 0o644)
	write(t, sb, "dir/empty", "", 0o600)
	write(t, sb, "dir/deep/er/file.bin", pattern(100_000, 0), 0o755)
	names := []string{"top.txt", "dir", "dir/empty", "dir/deep/er/file.bin"}
	fsys := sb.FS(bounded(t))
	if able {
		outputOf(t, sb, "ln", "-s", "deep/er", "dir/link")
		names = append(names, "dir/link")
	}
	is.NoErr(fstest.TestFS(fsys, names...))
}

func programSees(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "program-sees/file", "from outside", 0o644)
	is.Equal(outputOf(t, sb, "cat", "program-sees/file"), "from outside")
	write(t, sb, "program-sees/file", "anew", 0o644)
	is.Equal(outputOf(t, sb, "cat", "program-sees/file"), "anew")
}

func programWrote(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := sb.Command("tee", "program-wrote")
	cmd.Stdin = strings.NewReader("from inside")
	is.NoErr(cmd.Run(bounded(t)))
	is.Equal(read(t, sb, "program-wrote"), "from inside")
	outputOf(t, sb, "sh", "-c", "echo shorter > program-wrote")
	is.Equal(read(t, sb, "program-wrote"), "shorter\n")
}

func missingFile(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	fsys := sb.FS(bounded(t))
	for _, name := range []string{"missing-file", "missing-folder/file"} {
		_, err := fsys.Open(name)
		is.True(errors.Is(err, fs.ErrNotExist))
		_, err = fs.Stat(fsys, name)
		is.True(errors.Is(err, fs.ErrNotExist))
		_, err = fs.ReadDir(fsys, name)
		is.True(errors.Is(err, fs.ErrNotExist))
		e, ok := errors.AsType[*fs.PathError](err)
		is.True(ok)
		is.Equal(e.Path, name) // in the caller's terms
	}
}

func readDirectory(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "read-directory/file", "x", 0o644)
	f, err := sb.FS(bounded(t)).Open("read-directory")
	is.NoErr(err)
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	is.True(err != nil && !errors.Is(err, io.EOF)) // no content, which is not the same as an empty one
	_, err = fs.ReadDir(sb.FS(bounded(t)), "read-directory/file")
	is.True(err != nil) // and a file has no entries
}

func readDevice(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	outputOf(t, sb, "ln", "-s", "/dev/null", "read-device")
	_, err := fs.ReadFile(sb.FS(bounded(t)), "read-device")
	is.True(err != nil)
	is.True(sb.WriteFile(bounded(t), "read-device", strings.NewReader("x"), 0o644) != nil)
}

func absoluteName(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, workdirOf(t, sb)+"/absolute-name/file", "x", 0o644)
	is.Equal(read(t, sb, "absolute-name/file"), "x")
}

// largeFile reads in pieces what was written as a stream.
func largeFile(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	want := pattern(8<<20, 1)
	is.NoErr(sb.WriteFile(bounded(t), "large-file", io.MultiReader(strings.NewReader(want[:1<<20]), strings.NewReader(want[1<<20:])), 0o644))
	is.Equal(int(stat(t, sb, "large-file").Size()), len(want))
	is.True(read(t, sb, "large-file") == want)
	is.Equal(outputOf(t, sb, "wc", "-c", "large-file"), fmt.Sprintf("%d large-file\n", len(want)))
}

func description(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	before := time.Now()
	write(t, sb, "description/file", "12345", 0o640)
	info := stat(t, sb, "description/file")
	is.Equal(info.Name(), "file")
	is.Equal(info.Size(), int64(5))
	is.Equal(info.Mode(), fs.FileMode(0o640))
	is.True(!info.IsDir())
	is.True(info.ModTime().Sub(before).Abs() < 10*time.Second) // its clock is about ours
	dir := stat(t, sb, "description")
	is.True(dir.IsDir())
	is.Equal(dir.Mode(), fs.ModeDir|0o755)
}

func endedFS(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "ended-fs", pattern(8<<20, 2), 0o644)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fsys := sb.FS(ctx)
	f, err := fsys.Open("ended-fs")
	is.NoErr(err)
	defer f.Close()
	cancel()
	_, err = io.Copy(io.Discard, f)
	is.True(errors.Is(err, context.Canceled)) // not a file that is shorter than it was
	_, err = fsys.Open("ended-fs")
	is.True(errors.Is(err, context.Canceled))
	_, err = fs.ReadDir(fsys, ".")
	is.True(errors.Is(err, context.Canceled))
}
