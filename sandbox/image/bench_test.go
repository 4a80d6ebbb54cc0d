package image_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/hanzoai/sandbox/internal/imagetest"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
)

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkImport takes an image of some thousands of files into a store, and
// unpacks its layer by tar, in turns. An import checks digests, keeps the
// layer as it came, makes the image's tree, and brings all to the disk.
func BenchmarkImport(b *testing.B) {
	dir := b.TempDir()
	archive := filepath.Join(dir, "layer.tar.gz")
	run(b, "tar", "-czf", archive, "-C", "/usr", "lib/python3", "lib/python3.11", "share/zoneinfo")
	l, err := tarball.LayerFromFile(archive)
	if err != nil {
		b.Fatal(err)
	}
	img, err := mutate.AppendLayers(newImage(b), l)
	if err != nil {
		b.Fatal(err)
	}
	layout := saved(b, img)
	var ours, tars []time.Duration
	for b.Loop() {
		to := filepath.Join(dir, "out")
		if err := os.Mkdir(to, 0o755); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		run(b, "tar", "-xzf", archive, "-C", to)
		tars = append(tars, time.Since(start))
		s := open(b, image.Config{Dir: filepath.Join(dir, "store")})
		start = time.Now()
		if _, err := finish(s.Import(b.Context(), layout, "x")); err != nil {
			b.Fatal(err)
		}
		ours = append(ours, time.Since(start))
		b.StopTimer()
		for _, path := range []string{to, filepath.Join(dir, "store")} {
			if err := os.RemoveAll(path); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
	b.ReportMetric(median(ours).Seconds(), "s")
	b.ReportMetric(median(tars).Seconds(), "tar-s")
	b.ReportMetric(median(tars).Seconds()/median(ours).Seconds(), "of-tar")
}

// BenchmarkLease leases sandboxes on an image that the store has and on image
// host, in turns.
func BenchmarkLease(b *testing.B) {
	s := open(b, image.Config{})
	if _, err := finish(s.Import(b.Context(), saved(b, busybox(b, nil, imageConfig)), "kept")); err != nil {
		b.Fatal(err)
	}
	rt := runtimetest.New(b, sandbox.Config{Images: s})
	times := map[string][]time.Duration{}
	for b.Loop() {
		for _, name := range []string{"kept", "host"} {
			start := time.Now()
			sb, err := rt.Lease(b.Context(), sandbox.Spec{Image: name})
			if err != nil {
				b.Fatal(err)
			}
			times[name] = append(times[name], time.Since(start))
			if err := sb.End(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
	kept, host := median(times["kept"]), median(times["host"])
	b.ReportMetric(float64(kept.Milliseconds()), "ms")
	b.ReportMetric(float64(host.Milliseconds()), "host-ms")
	b.ReportMetric(kept.Seconds()/host.Seconds(), "of-host")
}

// BenchmarkPython runs a Python program of one line on image exec and on image
// host, in sandboxes that are there already, in turns.
func BenchmarkPython(b *testing.B) {
	rt := runtimetest.New(b, sandbox.Config{Images: imagetest.Built(b, "exec")})
	boxes := map[string]*sandbox.Sandbox{}
	for _, name := range []string{"exec", "host"} {
		sb, err := rt.Lease(b.Context(), sandbox.Spec{Image: name})
		if err != nil {
			b.Fatal(err)
		}
		boxes[name] = sb
		sh(b, sb, "python3 -c 'print(1)'") // its files are read for the first time
	}
	times := map[string][]time.Duration{}
	for b.Loop() {
		for name, sb := range boxes {
			start := time.Now()
			if out, err := sb.Command("python3", "-c", "print(6 * 7)").Output(b.Context()); err != nil || strings.TrimSpace(string(out)) != "42" {
				b.Fatal(string(out), err)
			}
			times[name] = append(times[name], time.Since(start))
		}
	}
	exec, host := median(times["exec"]), median(times["host"])
	b.ReportMetric(float64(exec.Milliseconds()), "ms")
	b.ReportMetric(float64(host.Milliseconds()), "host-ms")
	b.ReportMetric(exec.Seconds()/host.Seconds(), "of-host")
}

// BenchmarkFifty takes fifty images that have all but a small layer in common,
// and tells what each but the first takes on the disk.
func BenchmarkFifty(b *testing.B) {
	const images = 50
	dir := b.TempDir()
	archive := filepath.Join(dir, "layer.tar")
	run(b, "tar", "-cf", archive, "-C", "/usr", "lib/python3.11")
	l, err := tarball.LayerFromFile(archive)
	if err != nil {
		b.Fatal(err)
	}
	var first, all int64
	for b.Loop() {
		s := open(b, image.Config{Dir: filepath.Join(dir, "store")})
		for i := range images {
			img, err := mutate.AppendLayers(newImage(b), l, layer(b, files{"own": fmt.Sprint(i)}))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := finish(s.Import(b.Context(), saved(b, img), fmt.Sprint("image", i))); err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				first = used(b, filepath.Join(dir, "store"))
			}
		}
		all = used(b, filepath.Join(dir, "store"))
		b.StopTimer()
		if err := os.RemoveAll(filepath.Join(dir, "store")); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(first)/1e6, "first-MB")
	b.ReportMetric(float64(all-first)/1e6/(images-1), "each-MB")
}

// used is what a folder takes on the disk.
func used(b *testing.B, dir string) (kb int64) {
	b.Helper()
	out, err := osexec.Command("du", "-sk", dir).Output()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &kb); err != nil {
		b.Fatal(err)
	}
	return kb << 10
}
