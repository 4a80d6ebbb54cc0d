//go:build linux

package exec_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// TestArtifacts is about what programs do to files that only real ones do.
func TestArtifacts(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	l := newLab(t, rt, exec.Config{Limits: exec.Limits{Files: 10, FileSize: 1 << 20, Total: 20 << 20, Depth: 3, Path: 60, Entries: 600}})
	if err := l.sandboxTest(t).Command("python3", "--version").Run(t.Context()); err != nil {
		runtimetest.Lacks(t, "python3 is what leaves such files: ", err)
	}
	for _, c := range []struct {
		name string
		test func(t *testing.T, l lab)
	}{
		{"restored modification time", restoredTime},
		{"old modification time", oldTime},
		{"mapped memory", mapped},
		{"renamed and linked", renamed},
		{"permissions only", permissionsOnly},
		{"sixty files", sixtyFiles},
		{"limits say what they cut", limitsSay},
		{"what a limit of reading leaves out", readsSoMuch},
		{"many inputs", manyInputs},
		{"hostile tree", hostileTree},
		{"hostile folder of ours", hostileOwn},
		{"file that grows", growing},
		{"sparse file", sparse},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, l) })
	}
}

// sandboxTest is a sandbox that ends with the test.
func (l lab) sandboxTest(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	sb, err := l.sandboxes.Lease(bounded(t), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	l.endLater(t, sb.ID())
	return sb
}

func (l lab) py(t testing.TB, session, code string, inputs ...exec.Input) *exec.Result {
	t.Helper()
	res := l.run(t, exec.Snippet{Session: session, Language: "py", Code: code, Inputs: inputs})
	if res.Stderr != "" {
		t.Fatal(res.Stderr)
	}
	return res
}

func restoredTime(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "data.bin", "aaaa")
	res := l.py(t, f.Session, `
import os
was = os.stat("data.bin")
open("data.bin", "w").write("bbbb")
os.utime("data.bin", ns=(was.st_atime_ns, was.st_mtime_ns))`)
	is.Equal(paths(res), "data.bin") // of the same size, and as old
	res = l.py(t, f.Session, `import os; os.utime("data.bin", (1, 1))`)
	is.Equal(paths(res), "")
}

func oldTime(t *testing.T, l lab) {
	is := is.New(t)
	res := l.py(t, "", `import os
open("old.txt", "w").write("x")
os.utime("old.txt", (1, 1))`) // as unpacked archives have
	is.Equal(paths(res), "old.txt")
	is.Equal(res.Files[0].ModTime.Unix(), int64(1))
}

func mapped(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "data.bin", strings.Repeat("a", 8192))
	res := l.py(t, f.Session, `import mmap
f = open("data.bin", "r+b")
m = mmap.mmap(f.fileno(), 0)
m[4100:4103] = b"xyz"`) // never flushed nor closed
	is.Equal(paths(res), "data.bin")
	is.True(strings.Contains(l.read(t, f.Session, f.ID), "xyz"))
}

func renamed(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "a.txt", "a")
	l.upload(t, f.Session, "b.txt", "b")
	res := l.py(t, f.Session, `import os
os.rename("a.txt", "c.txt")
os.link("b.txt", "d.txt")`, input(f))
	is.Equal(paths(res), "c.txt d.txt") // b is as it was
	is.Equal(res.Deleted, []string{"a.txt"})
}

func permissionsOnly(t *testing.T, l lab) {
	is := is.New(t)
	f := l.upload(t, "", "run.sh", "echo")
	is.Equal(paths(l.py(t, f.Session, `import os; os.chmod("run.sh", 0o755)`)), "") // the content counts
}

func sixtyFiles(t *testing.T, l lab) {
	is := is.New(t)
	res := l.py(t, "", `for i in range(60): open("f%02d" % i, "w").write("x")`)
	is.Equal(len(res.Files), 10)
	is.Equal(res.Omitted.Count, 50)
	is.Equal(len(res.Omitted.First), 20)
	is.Equal(res.Omitted.First[0], exec.Omission{Path: "f10", Why: exec.WhyFiles})
	is.Equal(len(l.list(t, res.Session)), 60) // the listing has them
	is.Equal(l.read(t, res.Session, exec.FileID(res.Session, "f59")), "x")
}

func limitsSay(t *testing.T, l lab) {
	is := is.New(t)
	long := strings.Repeat("n", 61)
	res := l.py(t, "", `
import os
os.makedirs("a/b/c/d/e")
open("a/b/c/ok", "w")
open("a/b/c/d/deep", "w")
open("`+long+`", "w")
open(b"bad\xff", "w")
open("big", "w").write("x" * (1 << 20 | 1))
os.makedirs(".git/objects"); open(".git/config", "w")
os.makedirs("pkg/__pycache__"); open("pkg/__pycache__/x.pyc", "w")`)
	is.Equal(paths(res), "a/b/c/ok")
	got := fmt.Sprint(res.Omitted.First)
	is.Equal(res.Omitted.Count, 4)
	for _, want := range []string{"{a/b/c/d depth}", "{" + long + " path}", "{bad\uFFFD name}", "{big size}"} {
		is.True(strings.Contains(got, want))
	}
	res = l.py(t, res.Session, `
import os
os.makedirs("many")
for i in range(700): open("many/%03d" % i, "w")
open("first", "w")`)
	is.Equal(paths(res)[:5], "first") // what is on top is seen first
	is.True(strings.Contains(fmt.Sprint(res.Omitted.First), "{many entries}"))
	found := false
	for f, err := range l.Files(bounded(t), res.Session) {
		is.NoErr(err)
		found = found || f.Path == "many/000"
	}
	is.True(found)
}

// Files that take no space, and are said to be as they were, do not keep the
// interpreter reading.
func readsSoMuch(t *testing.T, l lab) {
	is := is.New(t)
	res := l.py(t, "", `
import hashlib, json, os
known = []
for i in range(100):
    with open("hole%02d" % i, "wb") as f: f.truncate(1 << 20)
    known.append({"path": f.name, "size": 1 << 20, "hash": hashlib.sha256(bytes(1 << 20)).hexdigest()})
os.makedirs(".exec", exist_ok=True)
with open(".exec/record.json", "w") as f: json.dump({"files": known}, f)`)
	is.Equal(paths(res), "")
	is.Equal(res.Omitted.Count, 80)
	is.Equal(res.Omitted.First[0], exec.Omission{Path: "hole20", Why: exec.WhyTotal})
}

// Inputs do not eat the places of what the program made.
func manyInputs(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sandboxTest(t)
	var inputs []exec.Input
	for i := range 30 {
		inputs = append(inputs, input(l.upload(t, here.ID(), fmt.Sprintf("a%02d", i), "x")))
	}
	res := l.py(t, here.ID(), `
import os
for i in range(30): os.utime("a%02d" % i)
for n in "xyz": open(n, "w").write(n)`, inputs...)
	is.Equal(paths(res), "x y z")
	is.Equal(res.Omitted.Count, 0)
}

func hostileTree(t *testing.T, l lab) {
	is := is.New(t)
	res := l.py(t, "", `
import os, socket
os.mkfifo("pipe")
s = socket.socket(socket.AF_UNIX); s.bind("sock")
os.symlink("/", "root"); os.symlink(".", "loop"); os.symlink("nowhere", "dangling")
os.symlink("/proc/self/environ", "environ"); os.symlink("/etc", "etc")
os.makedirs("closed/in"); open("closed/in/file", "w"); os.chmod("closed", 0)
open("secret", "w").write("x"); os.chmod("secret", 0)
open("ok", "w").write("x")`)
	is.Equal(paths(res), "ok")
	is.Equal(fmt.Sprint(res.Omitted.First), "[{closed unreadable} {secret unreadable}]")
	for _, name := range []string{"pipe", "sock", "root", "environ", "etc", "loop/ok/x", "closed/in/file", "secret", "root/var/lib/dpkg/status"} {
		_, _, err := l.Open(bounded(t), res.Session, name)
		is.True(err != nil)
	}
	is.True(strings.Contains(l.read(t, res.Session, "etc/passwd"), "sandbox:")) // of the image, at most
	plain(t, l.py(t, res.Session, `print("still works")`), "still works\n")
}

// A program that breaks what the interpreter keeps in the session harms that
// session's own reports at most.
func hostileOwn(t *testing.T, l lab) {
	is := is.New(t)
	for _, spoil := range []string{
		`open(".exec", "w")`,
		`os.symlink("/etc", ".exec")`,
		`os.symlink("nowhere", ".exec")`,
		`os.mkfifo(".exec")`,
		`os.makedirs(".exec/record.json")`,
		`os.makedirs(".exec"); os.mkfifo(".exec/record.json")`,
		`os.makedirs(".exec"); open(".exec/record.json", "w").write("[" * 100000)`,
		`os.makedirs(".exec"); open(".exec/record.json", "w").truncate(1 << 40)`,
		`os.makedirs(".exec"); open(".exec/record.json", "w").write('{"files":[{"path":"../../etc/passwd","hash":"x"},{"path":"/etc","hash":"x"},{"path":"a","size":-1}]}')`,
	} {
		sb := l.sandboxTest(t)
		l.py(t, sb.ID(), "import os\n"+spoil)
		res := l.py(t, sb.ID(), `open("a.txt", "w").write("x")`)
		is.Equal(paths(res), "a.txt")
		f := l.upload(t, sb.ID(), "b.txt", "y")
		is.Equal(l.list(t, sb.ID()), []string{"a.txt", "b.txt"})
		is.Equal(l.read(t, sb.ID(), f.ID), "y")
		_, _, err := l.Open(bounded(t), sb.ID(), exec.FileID(sb.ID(), "../../etc/passwd"))
		is.True(errors.Is(err, fs.ErrNotExist))
	}
}

// A program in the background that keeps writing cannot hold a report up.
func growing(t *testing.T, l lab) {
	is := is.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	res, err := l.Run(ctx, exec.Snippet{Language: "bash", Code: "(while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done > grow) & while [ ! -s grow ]; do :; done"})
	is.NoErr(err)
	l.endLater(t, res.Session)
	is.Equal(res.Code, 0)
}

func sparse(t *testing.T, l lab) {
	is := is.New(t)
	res := l.py(t, "", `
open("huge", "w").truncate(2 << 30)
open("empty", "w")`)
	is.Equal(paths(res), "empty")
	is.Equal(res.Files[0].Hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	is.Equal(fmt.Sprint(res.Omitted.First), "[{huge size}]")
	start := time.Now()
	f, about, err := l.Open(bounded(t), res.Session, exec.FileID(res.Session, "huge"))
	is.NoErr(err)
	is.Equal(about.Size, int64(2<<30))
	is.NoErr(f.Close()) // without having read it
	is.True(time.Since(start) < 20*time.Second)
}
