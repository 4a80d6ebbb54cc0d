package tree_test

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/sandbox/image/internal/tree"
)

// BenchmarkUnpack unpacks an archive of this machine's Python and time zones,
// some thousands of files, here and by tar, in turns.
func BenchmarkUnpack(b *testing.B) {
	dir := b.TempDir()
	archive := filepath.Join(dir, "layer.tar")
	if out, err := osexec.Command("tar", "-cf", archive, "-C", "/usr", "lib/python3", "lib/python3.11", "share/zoneinfo").CombinedOutput(); err != nil {
		b.Skip(err, string(out))
	}
	info, err := os.Stat(archive)
	if err != nil {
		b.Fatal(err)
	}
	var ours, tars []time.Duration
	for b.Loop() {
		tars = append(tars, timed(b, dir, func(to string) error {
			return osexec.Command("tar", "-xf", archive, "-C", to).Run()
		}))
		ours = append(ours, timed(b, dir, func(to string) error {
			f, err := os.Open(archive)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = tree.Unpack(to, f, &tree.Budget{MaxBytes: 1 << 40, MaxEntries: 1 << 30})
			return err
		}))
	}
	mine, other := median(ours), median(tars)
	b.ReportMetric(float64(info.Size())/1e6/mine.Seconds(), "MB/s")
	b.ReportMetric(float64(info.Size())/1e6/other.Seconds(), "tar-MB/s")
	b.ReportMetric(other.Seconds()/mine.Seconds(), "of-tar")
}

// timed times what fills a folder.
func timed(b *testing.B, dir string, fill func(to string) error) time.Duration {
	b.Helper()
	to, err := os.MkdirTemp(dir, "out-")
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	err = fill(to)
	took := time.Since(start)
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	if err := os.RemoveAll(to); err != nil {
		b.Fatal(err)
	}
	b.StartTimer()
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
