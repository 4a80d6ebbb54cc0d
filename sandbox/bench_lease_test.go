//go:build linux

package sandbox_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// BenchmarkPauseAndResume reports what a pause and a resume take, and the
// resume as a share of a new lease of the same kind, taken in turn.
func BenchmarkPauseAndResume(b *testing.B) {
	rt := runtimetest.New(b, sandbox.Config{Root: b.TempDir()})
	sb, err := rt.Lease(b.Context(), sandbox.Spec{Disk: true})
	if err != nil {
		b.Fatal(err)
	}
	var paused, resumed, leased []float64
	since := func(start time.Time) float64 { return float64(time.Since(start)) / 1e6 }
	for b.Loop() {
		start := time.Now()
		err := sb.Pause(b.Context())
		paused = append(paused, since(start))
		start = time.Now()
		err = errors.Join(err, sb.Resume(b.Context()))
		resumed = append(resumed, since(start))
		start = time.Now()
		other, leaseErr := rt.Lease(b.Context(), sandbox.Spec{})
		leased = append(leased, since(start))
		if err := errors.Join(err, leaseErr); err != nil {
			b.Fatal(err)
		}
		if err := other.End(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(median(paused), "pause-ms")
	b.ReportMetric(median(resumed), "resume-ms")
	b.ReportMetric(median(leased), "lease-ms")
	b.ReportMetric(median(resumed)/median(leased), "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPauseWithUnwrittenData reports what of a pause is the volume's data
// on its way to the disk.
func BenchmarkPauseWithUnwrittenData(b *testing.B) {
	var mu sync.Mutex
	var flushes []float64
	rt := runtimetest.New(b, sandbox.Config{Root: b.TempDir(), Events: func(e sandbox.Event) {
		if e.Kind == sandbox.EventPaused {
			mu.Lock()
			flushes = append(flushes, float64(e.Flush)/1e6)
			mu.Unlock()
		}
	}})
	sb, err := rt.Lease(b.Context(), sandbox.Spec{Disk: true})
	if err != nil {
		b.Fatal(err)
	}
	data := strings.Repeat("0123456789abcdef", 4<<20) // 64 MiB
	var paused []float64
	for b.Loop() {
		err := sb.WriteFile(b.Context(), "data", strings.NewReader(data), 0o644)
		start := time.Now()
		err = errors.Join(err, sb.Pause(b.Context()))
		paused = append(paused, float64(time.Since(start))/1e6)
		if err = errors.Join(err, sb.Resume(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(median(paused), "pause-ms")
	b.ReportMetric(median(flushes), "of-it-flush-ms")
	b.ReportMetric(0, "ns/op")
}

// hundred leases n sandboxes.
func hundred(tb testing.TB, rt *sandbox.Runtime, n int) {
	tb.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for range n {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if _, err := rt.Lease(tb.Context(), sandbox.Spec{}); err != nil {
				tb.Error(err)
			}
		})
	}
	wg.Wait()
}

// BenchmarkHundredIdle reports how long a sweep of 100 idle sandboxes takes,
// and New on a Root that has them.
func BenchmarkHundredIdle(b *testing.B) {
	root := b.TempDir()
	rt := runtimetest.New(b, sandbox.Config{Root: root})
	hundred(b, rt, 100)
	var swept, adopted []float64
	for b.Loop() {
		start := time.Now()
		rt.Sweep(start)
		swept = append(swept, float64(time.Since(start))/1e6)
		if err := rt.Detach(); err != nil {
			b.Fatal(err)
		}
		start = time.Now()
		rt = runtimetest.New(b, sandbox.Config{Root: root})
		adopted = append(adopted, float64(time.Since(start))/1e6)
	}
	count := 0
	for range rt.List(b.Context()) {
		count++
	}
	b.ReportMetric(float64(count), "sandboxes")
	b.ReportMetric(median(swept), "sweep-ms")
	b.ReportMetric(median(adopted), "adoption-ms")
	b.ReportMetric(0, "ns/op")
}
