//go:build linux

package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

const mib = 1 << 20

// limited is a sandbox of a Runtime on root, with python3 and limits that this
// machine enforces.
func limited(t *testing.T, root string, spec sandbox.Spec) (*sandbox.Runtime, *sandbox.Sandbox) {
	t.Helper()
	rt := runtimetest.New(t, sandbox.Config{Root: root, Strict: true})
	sb, err := rt.Lease(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := sb.Command("python3", "-c", "").Run(t.Context()); err != nil {
		runtimetest.Lacks(t, "this machine has no python3 to use memory with: ", err)
	}
	return rt, sb
}

func TestProcessorsAreLimited(t *testing.T) {
	is := is.New(t)
	_, sb := limited(t, "", sandbox.Spec{CPUs: 0.5})
	group := cgroup.Open().Group(sb.ID())
	before, err := group.CPU()
	is.NoErr(err)
	start := time.Now()
	burn := `import os, time
os.fork()
end = time.monotonic() + 2
while time.monotonic() < end: pass`
	is.NoErr(sb.Command("python3", "-c", burn).Run(t.Context()))
	took := time.Since(start)
	after, err := group.CPU()
	is.NoErr(err)
	// Two processes could use all of a small machine. A busy one may give
	// less than they may have, never more.
	is.True((after - before).Seconds() < 0.5*took.Seconds()+0.1)
	is.True((after - before).Seconds() > 0.2)
}

// TestLimitsAreTold in all the ways in which programs ask for them.
func TestLimitsAreTold(t *testing.T) {
	for _, c := range []struct {
		cpus  float64
		nproc int
		quota string
	}{
		{1, 1, "100000 100000"},
		{0.5, 1, "50000 100000"},
		{1.5, 2, "150000 100000"},
	} {
		t.Run(fmt.Sprint(c.cpus), func(t *testing.T) {
			is := is.New(t)
			_, sb := limited(t, "", sandbox.Spec{CPUs: c.cpus, Memory: 768 * mib})
			out, err := sb.Command("python3", "-c", `
import os
print(len(os.sched_getaffinity(0)))
print(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20)
print([line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemTotal:")][0])
assert os.getuid() == 1000
own = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().split(":")[2]
for dir in own, os.path.dirname(own):
    print(open(dir + "/memory.max").read().strip(), open(dir + "/cpu.max").read().strip())
`).Output(t.Context())
			is.NoErr(err)
			told := fmt.Sprintf("%d %s\n", 768*mib, c.quota)
			is.Equal(string(out), fmt.Sprintf("%d\n768\n%d\n", c.nproc, 768*1024)+told+told)
			is.Equal(sh(t, sb, "nproc; (setsid sh -c nproc)"), fmt.Sprintf("%d\n%d", c.nproc, c.nproc))
		})
	}
}

// TestPidsOfAllCommands: what commands have left behind counts against those
// to come, of which none can starve the init.
func TestPidsOfAllCommands(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	_, sb := limited(t, root, sandbox.Spec{})
	init := client.Client{Dial: dialInit(root, sb.ID()), Bounds: wire.Bounds{AllPids: 20}}
	watch, err := init.Watch(t.Context(), time.Time{}, 0) // the lease's end is the Runtime's as well
	is.NoErr(err)
	defer watch.Close()
	for range 2 {
		is.NoErr(sb.Command("sh", "-c", "i=0; while [ $i -lt 9 ]; do sleep 7336 & i=$((i+1)); done").Run(t.Context()))
	}
	var stderr bytes.Buffer
	cmd := sb.Command("sh", "-c", "true & true & true & wait")
	cmd.Stderr = &stderr
	is.True(cmd.Run(t.Context()) != nil)
	is.True(strings.Contains(stderr.String(), "Cannot fork"))
	is.NoErr(init.Ping(t.Context()))
}

// TestEngineIsInItsGroup looks at the engine itself, not at what was meant.
func TestEngineIsInItsGroup(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	_, sb := limited(t, root, sandbox.Spec{Memory: 2048 * mib, CPUs: 1.5})
	pid, err := runtimetest.EnginePID(root, sb.ID())
	is.NoErr(err)
	own, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	is.NoErr(err)
	group := cgroup.Open().Group(sb.ID())
	is.Equal(strings.Count(string(own), "/sandbox-"+sb.ID()+"\n"), len(group.Places))
	for _, want := range []struct{ names, value string }{
		{"memory.limit_in_bytes memory.max", strconv.Itoa((2048 + 256) * mib)},
		{"cpu.cfs_quota_us cpu.max", "150000"},
		{"pids.max", "8192"},
	} {
		is.Equal(strings.TrimSuffix(groupFile(t, group, want.names), " 100000"), want.value)
	}
	pids, err := group.Procs()
	is.NoErr(err)
	is.True(len(pids) >= 3) // the gofer and the stubs are there too
}

// groupFile reads the first of the named files that the group has.
func groupFile(t *testing.T, group *cgroup.Group, names string) string {
	t.Helper()
	for name := range strings.FieldsSeq(names) {
		for _, p := range group.Places {
			if b, err := os.ReadFile(filepath.Join(p.Dir, name)); err == nil {
				return strings.TrimSpace(string(b))
			}
		}
	}
	t.Fatal("no ", names)
	return ""
}

func TestGroupsAreRemoved(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt, sb := limited(t, root, sandbox.Spec{})
	there := func(id string) bool {
		for _, p := range cgroup.Open().Group(id).Places {
			if _, err := os.Stat(p.Dir); err == nil {
				return true
			}
		}
		return false
	}
	is.True(there(sb.ID()))
	is.NoErr(sb.End(t.Context()))
	is.True(!there(sb.ID())) // by the end

	killed, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.NoErr(runtimetest.SignalEngine(root, killed.ID(), syscall.SIGKILL))
	infoWhen(t, rt, killed.ID(), sandbox.StatusError)
	is.NoErr(killed.End(t.Context())) // waits for who tidies up
	is.True(!there(killed.ID()))      // by the engine's death

	left, err := rt.Lease(t.Context(), sandbox.Spec{Memory: 256 * mib})
	is.NoErr(err)
	is.NoErr(rt.Detach())
	is.True(there(left.ID())) // it goes on
	next := runtimetest.New(t, sandbox.Config{Root: root})
	again, err := next.Attach(t.Context(), left.ID())
	is.NoErr(err)
	ranOutOfMemory(is, hog(again).Run(t.Context())) // whom the next Runtime watches
	is.NoErr(next.Close())
	is.True(!there(left.ID())) // by the next Runtime
}

func TestEnforcement(t *testing.T) {
	is := is.New(t)
	rt, _ := limited(t, "", sandbox.Spec{})
	enforced := map[string]bool{}
	for _, e := range rt.Enforcement() {
		enforced[e.Limit] = e.Enforced
		is.True((e.By != "") == e.Enforced)
		is.True((e.Reason != "") == !e.Enforced)
	}
	is.Equal(enforced, map[string]bool{"memory": true, "cpu": true, "pids": true, "disk": true, "network": true, "time": true})
}

func TestImpossibleLimits(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	for _, spec := range []sandbox.Spec{
		{CPUs: -1},
		{CPUs: math.NaN()},
		{CPUs: math.Inf(1)},
		{CPUs: 0.01},
		{CPUs: 1e6},
		{Memory: -1},
		{Memory: 1},
		{Memory: sandbox.MinMemory - 1},
		{Memory: math.MaxInt64},
	} {
		t.Run(fmt.Sprint(spec.CPUs, spec.Memory), func(t *testing.T) {
			is := is.New(t)
			_, err := rt.Lease(t.Context(), spec)
			is.True(errors.Is(err, sandbox.ErrInvalid))
		})
	}
}
