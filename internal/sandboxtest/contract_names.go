package sandboxtest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// nameCases are about the names of files.
var nameCases = cases{
	{"odd names", oddNames},
	{"name that is too long", longName},
	{"names that lead out", leadOut},
	{"names of no file", noFile},
	{"names that an FS has not", invalidInFS},
}

var oddFileNames = []string{
	" ", "a b", " a", "a ", "a\nb", "a\tb", "-rf", "--", "e\u0301", "é", "日本", "😀", "a%2Fb", "%00", "..data", "...", "a.", ".a",
	"~", "$HOME", "*", "'", `"`, "a:b", "a;b", "#", "CON", strings.Repeat("n", 255), strings.Repeat("é", 127) + "x",
}

func oddNames(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	var paths []string
	for _, name := range oddFileNames {
		full := "odd-names/" + name
		write(t, sb, full, name, 0o644)
		is.Equal(read(t, sb, full), name)
		paths = append(paths, full)
	}
	is.Equal(list(t, sb, "odd-names"), slices.Sorted(slices.Values(oddFileNames))) // as they were given, also in how é is composed
	is.Equal(outputOf(t, sb, "cat", paths...), strings.Join(oddFileNames, ""))     // programs know them by the same names
	write(t, sb, "odd-names/a\n/b", "in a directory", 0o644)
	is.Equal(read(t, sb, "odd-names/a\n/b"), "in a directory")
}

func longName(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	is.True(sb.WriteFile(bounded(t), "long-name/"+strings.Repeat("n", 256), strings.NewReader(""), 0o644) != nil)
}

// outside returns names that lead out of the workdir, and such as none can be.
func outside(t *testing.T, sb *sandbox.Sandbox) []string {
	t.Helper()
	dir := workdirOf(t, sb)
	return []string{
		"..", "../x", "a/../../x", "/", "/x", "/etc/passwd", dir + "/../x", dir + "base/x", "../" + path.Base(dir) + "base/x",
		"\x00", "a\x00b", dir + "/\x00",
	}
}

func workdirOf(t *testing.T, sb *sandbox.Sandbox) string {
	t.Helper()
	info, err := sb.Info(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return info.Workdir
}

func leadOut(t *testing.T, sb *sandbox.Sandbox) {
	for _, name := range outside(t, sb) {
		t.Run(name, func(t *testing.T) {
			refusesName(t, sb.WriteFile(bounded(t), name, strings.NewReader("x"), 0o644), name)
		})
	}
}

// refusesName asserts that err is of a name that cannot be right.
func refusesName(t *testing.T, err error, name string) {
	t.Helper()
	if !errors.Is(err, sandbox.ErrInvalid) {
		t.Fatalf("%q: %v is no ErrInvalid", name, err)
	}
	if e, ok := errors.AsType[*fs.PathError](err); !ok || e.Path != name {
		t.Fatalf("%q: %v does not name the file, as a PathError does", name, err)
	}
}

func noFile(t *testing.T, sb *sandbox.Sandbox) {
	for _, name := range []string{"", ".", "./", "dir/", "dir/..", workdirOf(t, sb) + "/"} {
		t.Run(name, func(t *testing.T) {
			refusesName(t, sb.WriteFile(bounded(t), name, strings.NewReader("x"), 0o644), name)
		})
	}
}

func invalidInFS(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	fsys := sb.FS(bounded(t))
	for _, name := range []string{"", "..", "../x", "a/../b", "/etc/passwd", workdirOf(t, sb) + "/x", "./x", "x/", "a//b", "a\x00b"} {
		_, err := fsys.Open(name)
		is.True(errors.Is(err, fs.ErrInvalid))
		_, err = fs.Stat(fsys, name)
		is.True(errors.Is(err, fs.ErrInvalid))
		_, err = fs.ReadDir(fsys, name)
		is.True(errors.Is(err, fs.ErrInvalid))
	}
}
