package workpath_test

import (
	"path"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/workpath"
)

func TestResolve(t *testing.T) {
	const workdir = "/mnt/data"
	for name, want := range map[string]string{
		"":                    workdir,
		".":                   workdir,
		"./":                  workdir,
		"a":                   workdir + "/a",
		"a/b":                 workdir + "/a/b",
		"./a":                 workdir + "/a",
		"a/":                  workdir + "/a",
		"a//b///":             workdir + "/a/b",
		"a/./b/../c":          workdir + "/a/c",
		"a/..":                workdir,
		"...":                 workdir + "/...",
		"..data":              workdir + "/..data",
		"..data/..more":       workdir + "/..data/..more",
		"a..":                 workdir + "/a..",
		" ":                   workdir + "/ ",
		"a\nb":                workdir + "/a\nb",
		"\xff":                workdir + "/\xff",
		`\..\x`:               workdir + `/\..\x`,
		"mnt/data":            workdir + "/mnt/data",
		"~":                   workdir + "/~",
		"/mnt/data":           workdir,
		"/mnt/data/":          workdir,
		"/mnt/data/a":         workdir + "/a",
		"/mnt//data/./a":      workdir + "/a",
		"//mnt/data/a":        workdir + "/a",
		"/mnt/data/../data/a": workdir + "/a",
		"../data/a":           workdir + "/a", // out and in again is in

		"..":                   "",
		"../":                  "",
		"../x":                 "",
		"a/../..":              "",
		"a/../../x":            "",
		"../database":          "",
		"../data2/a":           "",
		"../../../../etc":      "",
		"/":                    "",
		"/mnt":                 "",
		"/mnt/":                "",
		"/mnt/database":        "", // it begins like the workdir
		"/mnt/data2":           "",
		"/mnt/data..":          "",
		"/mnt/dat":             "",
		"/mnt/data/..":         "",
		"/mnt/data/../x":       "",
		"/mnt/data/../../etc":  "",
		"/etc/passwd":          "",
		"/MNT/DATA/a":          "",
		"\x00":                 "",
		"a\x00b":               "",
		"/mnt/data/a\x00":      "",
		"/mnt/data\x00/../etc": "",
	} {
		got, err := workpath.Resolve(workdir, name)
		if (err == nil) != (want != "") || got != want {
			t.Errorf("%q is %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestErrorsAreShort: a name that is refused may be of any length.
func TestErrorsAreShort(t *testing.T) {
	for _, name := range []string{"/" + strings.Repeat("x", 1<<20), "\x00" + strings.Repeat("\x00", 1<<20)} {
		is := is.New(t)
		_, err := workpath.Resolve("/work", name)
		is.True(err != nil)
		is.True(len(err.Error()) < 1000)
	}
}

func TestDir(t *testing.T) {
	for name, want := range map[string]string{
		"":         "/work",
		".":        "/work",
		"a/b":      "/work/a/b",
		"../x":     "/x",
		"/":        "/",
		"/tmp":     "/tmp",
		"/tmp/../": "/tmp/../",
	} {
		if got := workpath.Dir("/work", name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// FuzzResolve: what is not refused is inside, clean, and stays what it is.
func FuzzResolve(f *testing.F) {
	for _, name := range []string{"", "a/../b", "..", "/mnt/data/a", "/mnt/database", "..data", "a\x00", "//", "/mnt/data/../.."} {
		f.Add("/mnt/data", name)
		f.Add("/work", name)
	}
	f.Fuzz(func(t *testing.T, workdir, name string) {
		workdir = path.Clean("/" + workdir)
		if workdir == "/" {
			return // no class has it for its working directory
		}
		got, err := workpath.Resolve(workdir, name)
		if err != nil {
			if got != "" {
				t.Fatalf("%q with %v", got, err)
			}
			return
		}
		if got != workdir && !strings.HasPrefix(got, workdir+"/") {
			t.Fatalf("%q in %q is %q", name, workdir, got)
		}
		if got != path.Clean(got) || strings.ContainsRune(name, 0) {
			t.Fatalf("%q in %q is %q", name, workdir, got)
		}
		for part := range strings.SplitSeq(got, "/") {
			if part == ".." {
				t.Fatalf("%q in %q is %q", name, workdir, got)
			}
		}
		if strings.ContainsRune(workdir, 0) {
			return
		}
		if again, err := workpath.Resolve(workdir, got); again != got || err != nil {
			t.Fatalf("%q, then %q, %v", got, again, err)
		}
	})
}
