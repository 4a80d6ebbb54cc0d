//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// The benchmarks compare with gVisor's own command line, built from the same
// module as its authors would, by taking turns within one run: on a machine
// with neighbours only such ratios mean anything. Run them with
//
//	CGO_ENABLED=0 go test ./sandbox -run '^$' -bench . -benchtime 60x

// upstream builds runsc from the module that go.mod names.
func upstream(b *testing.B) string {
	b.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(cache, "hanzo-sandbox-test", "runsc")
	cmd := osexec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "gvisor.dev/gvisor/runsc")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return path
}

// bench is a Runtime on a Root that the engine's command line can be pointed
// at as well.
type bench struct {
	*sandbox.Runtime
	root string
}

func newBench(b *testing.B) bench {
	root := b.TempDir()
	return bench{runtimetest.New(b, sandbox.Config{Root: root}), root}
}

func (r bench) lease(b *testing.B) *sandbox.Sandbox {
	b.Helper()
	sb, err := r.Lease(b.Context(), sandbox.Spec{})
	if err != nil {
		b.Fatal(err)
	}
	return sb
}

// flags are the engine's, as the Runtime gives them.
func (r bench) flags(args ...string) []string {
	return append([]string{
		"--root=" + filepath.Join(r.root, "engine"), "--platform=systrap", "--network=none", "--overlay2=root:memory,size=64m",
		"--host-uds=create", "--in-sandbox-cgroup=v2", "--host-settings=ignore", "--ignore-cgroups",
	}, args...)
}

// turns runs both contestants in turn and reports their medians in
// milliseconds, and the first's as a share of the second's. Each returns what
// is still to be given back, outside of its time.
func turns(b *testing.B, names [2]string, run [2]func() (after func(), err error)) {
	var took [2][]float64
	for b.Loop() {
		for i, f := range run {
			start := time.Now()
			after, err := f()
			took[i] = append(took[i], float64(time.Since(start))/1e6)
			if err != nil {
				b.Fatal(names[i], ": ", err)
			}
			after()
		}
	}
	for i, name := range names {
		b.ReportMetric(median(took[i]), name+"-ms")
	}
	b.ReportMetric(median(took[0])/median(took[1]), "ratio")
	b.ReportMetric(0, "ns/op")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkCommand is one command in a running sandbox.
func BenchmarkCommand(b *testing.B) {
	runsc, r := upstream(b), newBench(b)
	sb := r.lease(b)
	nothing := func() {}
	turns(b, [2]string{"sandbox", "runsc-exec"}, [2]func() (func(), error){
		func() (func(), error) { return nothing, sb.Command("/bin/true").Run(b.Context()) },
		func() (func(), error) {
			return nothing, osexec.Command(runsc, r.flags("exec", "--user=1000:1000", sb.ID(), "/bin/true")...).Run()
		},
	})
}

// BenchmarkRoundTrip is the protocol's empty operation.
func BenchmarkRoundTrip(b *testing.B) {
	r := newBench(b)
	sb := r.lease(b)
	c := &client.Client{Dial: dialInit(r.root, sb.ID())}
	var took []float64
	for b.Loop() {
		start := time.Now()
		if err := c.Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64(time.Since(start))/1e6)
	}
	b.ReportMetric(median(took), "median-ms")
}

// dialInit connects to the init of a sandbox under root, as its Runtime does.
func dialInit(root, id string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		dir, err := os.Open(filepath.Join(root, "sandboxes", id, "run", "sock"))
		if err != nil {
			return nil, err
		}
		defer dir.Close() // the path may be too long for an address
		return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/init", dir.Fd()))
	}
}

// BenchmarkColdStart is from nothing to a program's first output, on image
// host: by a lease, and by the engine's command line with the same bundle, in
// which the program has the place of the init.
func BenchmarkColdStart(b *testing.B) {
	runsc, r := upstream(b), newBench(b)
	bundle := plainBundle(b, r)
	n := 0
	turns(b, [2]string{"lease", "runsc-run"}, [2]func() (func(), error){
		func() (func(), error) {
			sb, err := r.Lease(b.Context(), sandbox.Spec{})
			if err != nil {
				return nil, err
			}
			out, err := sb.Command("/bin/echo", "hi").Output(b.Context())
			return func() { sb.End(b.Context()) }, expect("hi\n", out, err)
		},
		func() (func(), error) {
			n++
			cmd := osexec.Command(runsc, r.flags("run", "--bundle="+bundle, fmt.Sprint("plain", n))...)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				return nil, err
			}
			if err := cmd.Start(); err != nil {
				return nil, err
			}
			out := make([]byte, 3)
			_, err = io.ReadFull(stdout, out)
			return func() { cmd.Wait() }, expect("hi\n", out, err)
		},
	})
}

func expect(want string, got []byte, err error) error {
	if err == nil && string(got) != want {
		return fmt.Errorf("got %q", got)
	}
	return err
}

// plainBundle is the bundle of a sandbox whose process is echo as its user.
func plainBundle(b *testing.B, r bench) string {
	sb := r.lease(b)
	config, err := os.ReadFile(filepath.Join(r.root, "sandboxes", sb.ID(), "run", "bundle", "config.json"))
	if err != nil {
		b.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(config, &spec); err != nil {
		b.Fatal(err)
	}
	spec.Process.Args = []string{"/bin/echo", "hi"}
	spec.Process.User = specs.User{UID: 1000, GID: 1000}
	if config, err = json.Marshal(spec); err != nil {
		b.Fatal(err)
	}
	bundle := b.TempDir()
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600); err != nil {
		b.Fatal(err)
	}
	return bundle
}

const gib = 1 << 30

// BenchmarkFiles is a file of 1 GiB through the guest, each way.
func BenchmarkFiles(b *testing.B) {
	sb := newBench(b).lease(b)
	b.Run("write", func(b *testing.B) {
		grew := growth()
		b.SetBytes(gib)
		for b.Loop() {
			if err := sb.WriteFile(b.Context(), "big", io.LimitReader(zeros{}, gib), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(grew(), "MiB-grown")
	})
	b.Run("read", func(b *testing.B) {
		grew := growth()
		b.SetBytes(gib)
		for b.Loop() {
			if err := read(sb.FS(b.Context()), "big", gib); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(grew(), "MiB-grown")
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func read(fsys fs.FS, name string, size int64) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(io.Discard, f)
	if err == nil && n != size {
		err = fmt.Errorf("read %d of %d bytes", n, size)
	}
	return err
}

// growth returns a function that says by how much this process's memory has
// peaked above what it is now, in MiB.
func growth() func() float64 {
	runtime.GC()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // forgets the peak so far
	before := status("VmRSS")
	return func() float64 { return float64(status("VmHWM")-before) / 1024 }
}

// status reads a figure in kB of this process.
func status(key string) int {
	b, _ := os.ReadFile("/proc/self/status")
	return figure(b, key)
}

func figure(b []byte, key string) int {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(key+":")); ok {
			n, _ := strconv.Atoi(strings.Fields(string(rest))[0])
			return n
		}
	}
	return 0
}

// BenchmarkIdleMemory is the memory of an idle sandbox: the proportional set
// size of all the engine's processes, with 20 of them running.
func BenchmarkIdleMemory(b *testing.B) {
	const n = 20
	for b.Loop() {
		r := newBench(b)
		for range n {
			if err := r.lease(b).Command("/bin/true").Run(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		pids := engineProcesses(filepath.Join(r.root, "engine"))
		total := 0
		for _, pid := range pids {
			smaps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
			total += figure(smaps, "Pss")
		}
		b.ReportMetric(float64(total)/1024/n, "MiB-each")
		b.ReportMetric(float64(len(pids))/n, "processes-each")
		b.ReportMetric(0, "ns/op")
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// engineProcesses lists the processes of the engine whose state is in root,
// with their descendants: the stubs in which guest code runs have no name.
func engineProcesses(root string) []int {
	children := map[int][]int{}
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		stat, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
		if bytes.HasPrefix(cmdline, []byte("runsc-")) && bytes.Contains(cmdline, []byte("--root="+root)) {
			found = append(found, pid)
		}
	}
	for i := 0; i < len(found); i++ {
		for _, child := range children[found[i]] {
			if !slices.Contains(found, child) {
				found = append(found, child)
			}
		}
	}
	return found
}
