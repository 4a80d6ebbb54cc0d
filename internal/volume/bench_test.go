package volume_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The benchmarks report medians. Run them with
//
//	CGO_ENABLED=0 go test ./internal/volume -run '^$' -bench . -benchtime 20x

const gib = 1 << 30

func report(b *testing.B, name string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, name+"-ms")
	b.ReportMetric(0, "ns/op")
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTemplate is the first volume of a size.
func BenchmarkTemplate(b *testing.B) {
	s, _ := open(b)
	var took []time.Duration
	for size := int64(20 * gib); b.Loop(); size += 4096 {
		start := time.Now()
		_, err := s.Mount(b.Context(), "v", size, 1000, 1000)
		took = append(took, time.Since(start))
		check(b, err)
		check(b, s.Remove(b.Context(), "v"))
	}
	report(b, "median", took)
}

// BenchmarkNew is each further volume of a size, and its removal.
func BenchmarkNew(b *testing.B) {
	for _, size := range []int64{2 * gib, 20 * gib} {
		b.Run(fmt.Sprint(size/gib, "GiB"), func(b *testing.B) {
			s, dir := open(b)
			_, err := s.Mount(b.Context(), "first", size, 1000, 1000)
			check(b, err)
			var took, removal []time.Duration
			used := int64(0)
			for b.Loop() {
				start := time.Now()
				_, err := s.Mount(b.Context(), "v", size, 1000, 1000)
				took = append(took, time.Since(start))
				check(b, err)
				used = onDisk(b, filepath.Join(dir, "volume", "v", "image"))
				start = time.Now()
				check(b, s.Remove(b.Context(), "v"))
				removal = append(removal, time.Since(start))
			}
			report(b, "median", took)
			report(b, "removal", removal)
			b.ReportMetric(float64(used)/1024, "KiB-on-disk")
		})
	}
}

// BenchmarkMount is a volume that exists, mounted and unmounted.
func BenchmarkMount(b *testing.B) {
	s, _ := open(b)
	_, err := s.Mount(b.Context(), "v", 20*gib, 1000, 1000)
	check(b, err)
	var mount, flush, unmount []time.Duration
	for b.Loop() {
		stats, err := s.Unmount(b.Context(), "v")
		check(b, err)
		flush, unmount = append(flush, stats.Flush), append(unmount, stats.Unmount)
		start := time.Now()
		_, err = s.Mount(b.Context(), "v", 20*gib, 1000, 1000)
		check(b, err)
		mount = append(mount, time.Since(start))
	}
	report(b, "mount", mount)
	report(b, "flush", flush)
	report(b, "unmount", unmount)
}

// BenchmarkDirty is the unmount of a volume to which 200 MB have just been
// written, and what writing and reading 1 GiB takes there.
func BenchmarkDirty(b *testing.B) {
	s, _ := open(b)
	var flush, unmount []time.Duration
	for b.Loop() {
		dir, err := s.Mount(b.Context(), "v", 2*gib, 1000, 1000)
		check(b, err)
		check(b, write(filepath.Join(dir, "x"), 200e6, false))
		stats, err := s.Unmount(b.Context(), "v")
		check(b, err)
		flush, unmount = append(flush, stats.Flush), append(unmount, stats.Unmount)
	}
	report(b, "flush", flush)
	report(b, "unmount", unmount)
}

// BenchmarkFile is 1 GiB, written and synced, then read after a new mount.
func BenchmarkFile(b *testing.B) {
	s, _ := open(b)
	var writing, reading []time.Duration
	for b.Loop() {
		dir, err := s.Mount(b.Context(), "v", 2*gib, 1000, 1000)
		check(b, err)
		start := time.Now()
		check(b, write(filepath.Join(dir, "x"), gib, true))
		writing = append(writing, time.Since(start))
		_, err = s.Unmount(b.Context(), "v")
		check(b, err)
		_, err = s.Mount(b.Context(), "v", 0, 1000, 1000)
		check(b, err)
		f, err := os.Open(filepath.Join(dir, "x"))
		check(b, err)
		start = time.Now()
		n, err := io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f})
		reading = append(reading, time.Since(start))
		check(b, err)
		if n != gib {
			b.Fatal(n)
		}
		f.Close()
	}
	report(b, "write", writing)
	report(b, "read", reading)
}

type noise struct{ seed uint64 }

func (n *noise) Read(p []byte) (int, error) {
	for i := range p {
		n.seed = n.seed*6364136223846793005 + 1442695040888963407
		p[i] = byte(n.seed >> 56)
	}
	return len(p), nil
}

// write writes a file that no file system can make smaller.
func write(path string, size int64, sync bool) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	(&noise{1}).Read(block)
	for size > 0 {
		n, err := f.Write(block[:min(size, int64(len(block)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	if sync {
		return f.Sync()
	}
	return nil
}
