//go:build linux

package exec_test

import (
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// The benchmarks take turns with what they are compared to, as those of
// package sandbox do. Run them with
//
//	CGO_ENABLED=0 go test ./exec -run '^$' -bench . -benchtime 30x

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
	m := runtimetest.Turns(b, []string{"exec", "init"},
		func() { l.must(b, exec.Snippet{Session: sb.ID(), Language: "py", Code: "print('hello')"}, "hello\n") },
		func() {
			if out, err := sb.Command("python3", "-c", "print('hello')").Output(b.Context()); err != nil || string(out) != "hello\n" {
				b.Fatal(string(out), err)
			}
		})
	b.ReportMetric(m[0]/m[1], "ratio")
}

// BenchmarkScan is a run that does nothing in a session with so many files,
// against one in an empty session, and a listing of them.
func BenchmarkScan(b *testing.B) {
	rt := runtimetest.New(b, sandbox.Config{})
	for _, n := range []int{1000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { scan(b, rt, n) })
	}
}

func scan(b *testing.B, rt *sandbox.Runtime, n int) {
	l := newLab(b, rt, exec.Config{})
	empty, full := l.sandboxTest(b), l.sandboxTest(b)
	makeFiles(b, full, n)
	run := func(sb *sandbox.Sandbox) func() {
		return func() { l.must(b, exec.Snippet{Session: sb.ID(), Language: "sh", Code: "true"}, "") }
	}
	m := runtimetest.Turns(b, []string{"empty", "full", "list"}, run(empty), run(full), func() {
		for _, err := range l.Files(b.Context(), full.ID()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(m[1]-m[0], "scan-ms")
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
