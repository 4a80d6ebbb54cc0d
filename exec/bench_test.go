package exec_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/hostdir"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/internal/workpath"
	"github.com/hanzoai/sandbox/sandbox"
)

// The benchmarks take turns with what they are compared to, as those of
// package sandbox do. Run them with
//
//	CGO_ENABLED=0 go test ./exec -run '^$' -bench . -benchtime 30x

// fromOutside is a Runtime that lists directories on the host.
type fromOutside struct {
	*sandbox.Runtime
	root string
}

var _ sandboxtest.Sandboxes = (*fromOutside)(nil)

func (r *fromOutside) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	sb, err := r.Runtime.Lease(ctx, spec)
	if err != nil {
		return nil, err
	}
	return sandbox.Handle(r, sb.ID()), nil
}

func (r *fromOutside) Attach(ctx context.Context, id string) (*sandbox.Sandbox, error) {
	if _, err := r.Runtime.Attach(ctx, id); err != nil {
		return nil, err
	}
	return sandbox.Handle(r, id), nil
}

func (r *fromOutside) ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error) {
	const work = "/mnt/data"
	full, err := workpath.Resolve(work, name)
	if err != nil {
		return r.Runtime.ReadDir(ctx, id, name)
	}
	rel, err := filepath.Rel(work, full)
	if err != nil {
		return nil, err
	}
	list, err := hostdir.Read(dataDir(r.root, id), rel)
	if errors.Is(err, hostdir.ErrLink) {
		return r.Runtime.ReadDir(ctx, id, name)
	}
	return list, err
}

func newOutside(t testing.TB) *fromOutside {
	root := t.TempDir()
	return &fromOutside{runtimetest.New(t, sandbox.Config{Root: root}), root}
}

// dataDir is the folder on the host of a sandbox's working directory.
func dataDir(root, id string) string {
	for _, pattern := range []string{"run/data", "disk/data", "run/disk/data", "*/data", "*/*/data"} {
		if found, _ := filepath.Glob(filepath.Join(root, "sandboxes", id, pattern)); len(found) == 1 {
			return found[0]
		}
	}
	return "/nowhere"
}

func (r *fromOutside) Open(ctx context.Context, id, name string) (fs.File, error) {
	dir, err := hostdir.Open(dataDir(r.root, id), name)
	if err != nil { // also what is no directory
		return r.Runtime.Open(ctx, id, name)
	}
	return dir, nil
}

// TestFromOutside runs what is about files on directories that are listed on
// the host.
func TestFromOutside(t *testing.T) {
	l := newLab(t, newOutside(t), exec.Config{Limits: exec.Limits{Files: 10, FileSize: 1 << 20, Depth: 3, Path: 60, Entries: 600}})
	for _, c := range []struct {
		name string
		test func(t *testing.T, l lab)
	}{
		{"produced-file", producedFile},
		{"touched-file", touchedFile},
		{"hidden-folders", hiddenFolders},
		{"links-are-not-followed", linksAreNotFollowed},
		{"restored modification time", restoredTime},
		{"mapped memory", mapped},
		{"renamed and linked", renamed},
		{"limits say what they cut", limitsSay},
		{"hostile folder of ours", hostileOwn},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, l) })
	}
}

// turns runs all in turn, and returns and reports their medians in
// milliseconds.
func turns(b *testing.B, names []string, run ...func()) []float64 {
	took := make([][]float64, len(run))
	for b.Loop() {
		for i, f := range run {
			start := time.Now()
			f()
			took[i] = append(took[i], float64(time.Since(start))/1e6)
		}
	}
	medians := make([]float64, len(run))
	for i, list := range took {
		slices.Sort(list)
		medians[i] = list[len(list)/2]
		b.ReportMetric(medians[i], names[i]+"-ms")
		b.ReportMetric(list[0], names[i]+"-min-ms")
	}
	b.ReportMetric(0, "ns/op")
	return medians
}

func (l lab) must(b *testing.B, s exec.Snippet, stdout string) {
	res, err := l.Run(b.Context(), s)
	if err != nil || res.Stdout != stdout || res.Stderr != "" {
		b.Fatal(res, err)
	}
}

// BenchmarkHello is a Python program in a session, against what it stands on:
// python3 started by the sandbox's init.
func BenchmarkHello(b *testing.B) {
	l := newLab(b, runtimetest.New(b, sandbox.Config{}), exec.Config{})
	sb := l.sandboxTest(b)
	m := turns(b, []string{"exec", "init"},
		func() { l.must(b, exec.Snippet{Session: sb.ID(), Language: "py", Code: "print('hello')"}, "hello\n") },
		func() {
			if out, err := sb.Command("python3", "-c", "print('hello')").Output(b.Context()); err != nil || string(out) != "hello\n" {
				b.Fatal(string(out), err)
			}
		})
	b.ReportMetric(m[0]/m[1], "ratio")
}

// BenchmarkScan is a run that does nothing in a session with so many files,
// against one in an empty session, and the traversal alone; with directories
// listed inside and on the host.
func BenchmarkScan(b *testing.B) {
	r := newOutside(b)
	for _, n := range []int{1000, 100_000} {
		for name, sandboxes := range map[string]sandboxtest.Sandboxes{"inside": r.Runtime, "host": r} {
			b.Run(name+"-"+strconv.Itoa(n), func(b *testing.B) { scan(b, sandboxes, r.root, n) })
		}
	}
}

func scan(b *testing.B, sandboxes sandboxtest.Sandboxes, root string, n int) {
	l := newLab(b, sandboxes, exec.Config{})
	empty, full := l.sandboxTest(b), l.sandboxTest(b)
	makeFiles(b, root, full.ID(), n)
	run := func(sb *sandbox.Sandbox) func() {
		return func() { l.must(b, exec.Snippet{Session: sb.ID(), Language: "sh", Code: "true"}, "") }
	}
	turns(b, []string{"empty", "full", "list"}, run(empty), run(full), func() {
		for _, err := range l.Files(b.Context(), full.ID()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCarry is an input of 100 MB that is carried into another session,
// and what this process grows by at most.
func BenchmarkCarry(b *testing.B) {
	const size = 100 << 20
	l := newLab(b, runtimetest.New(b, sandbox.Config{}), exec.Config{})
	from, to := l.sandboxTest(b), l.sandboxTest(b)
	if err := from.Command("sh", "-c", "head -c 104857600 /dev/urandom > big").Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	var most uint64
	var took []float64
	for b.Loop() {
		if err := to.RemoveAll(b.Context(), "big"); err != nil {
			b.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		l.must(b, exec.Snippet{
			Session: to.ID(), Language: "sh", Code: "true",
			Inputs: []exec.Input{{Session: from.ID(), File: "big"}},
		}, "")
		took = append(took, time.Since(start).Seconds())
		runtime.ReadMemStats(&after)
		most = max(most, after.HeapSys-min(after.HeapSys, before.HeapSys))
	}
	slices.Sort(took)
	b.ReportMetric(size/1e6/took[len(took)/2], "MB/s")
	b.ReportMetric(float64(most)/(1<<20), "grown-MiB")
	b.ReportMetric(0, "ns/op")
}
