package cgroup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// newGroup makes a real group with a name of this test's own.
func newGroup(t *testing.T, l cgroup.Limits) (*cgroup.Host, *cgroup.Group, string) {
	t.Helper()
	h := cgroup.Open()
	for _, c := range h.Controllers() {
		if !c.Usable {
			runtimetest.Lacks(t, c.Name, ": ", c.Why)
		}
	}
	id := fmt.Sprintf("test%d%s", os.Getpid(), strings.ToLower(t.Name()))
	g := h.Group(id)
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := g.Make(l); err != nil {
		t.Fatal(err)
	}
	return h, g, id
}

// file reads a control file of the group, whichever version has it.
func file(t *testing.T, g *cgroup.Group, names ...string) string {
	t.Helper()
	for _, p := range g.Places {
		for _, name := range names {
			if b, err := os.ReadFile(filepath.Join(p.Dir, name)); err == nil {
				return strings.TrimSpace(string(b))
			}
		}
	}
	t.Fatal("no file ", names)
	return ""
}

// sleeper is a process that ends when it is killed, or with this one.
func sleeper(t *testing.T) *osexec.Cmd {
	t.Helper()
	cmd := osexec.Command("cat")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestLimits(t *testing.T) {
	is := is.New(t)
	_, g, id := newGroup(t, cgroup.Limits{Memory: 256 << 20, CPUs: 0.5, Weight: 2, Pids: 100})
	is.NoErr(g.Check(id))
	is.True(g.Check("another") != nil)
	is.Equal(file(t, g, "memory.max", "memory.limit_in_bytes"), strconv.Itoa(256<<20))
	is.Equal(file(t, g, "pids.max"), "100")
	is.True(slices.Contains([]string{"50000", "50000 100000"}, file(t, g, "cpu.max", "cpu.cfs_quota_us")))
	is.True(slices.Contains([]string{"2048", "200"}, file(t, g, "cpu.shares", "cpu.weight")))

	is.NoErr(g.Make(cgroup.Limits{Memory: 512 << 20})) // making it again changes what is given
	is.Equal(file(t, g, "memory.max", "memory.limit_in_bytes"), strconv.Itoa(512<<20))
	is.Equal(file(t, g, "pids.max"), "100")
	is.NoErr(g.Limit(cgroup.Limits{Memory: 64 << 20})) // and down again
	is.Equal(file(t, g, "memory.max", "memory.limit_in_bytes"), strconv.Itoa(64<<20))
}

func TestStart(t *testing.T) {
	is := is.New(t)
	h, g, id := newGroup(t, cgroup.Limits{})
	ids, err := h.List()
	is.NoErr(err)
	is.True(slices.Contains(ids, id))

	cmd := sleeper(t)
	is.NoErr(g.Start(cmd))
	pids, err := g.Procs()
	is.NoErr(err)
	is.Equal(pids, []int{cmd.Process.Pid}) // it is in the group, and this process is not
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	is.NoErr(err)
	is.Equal(strings.Count(string(b), "sandbox-"+id), len(g.Places)) // of every hierarchy
	n, err := g.Tasks()
	is.NoErr(err)
	is.Equal(n, 1)

	is.NoErr(g.Remove(t.Context())) // kills it
	err = cmd.Wait()
	is.Equal(err.Error(), "signal: killed")
	for _, p := range g.Places {
		_, err := os.Stat(p.Dir)
		is.True(os.IsNotExist(err))
	}
	is.NoErr(g.Remove(t.Context())) // and can be repeated
	pids, err = g.Procs()
	is.NoErr(err)
	is.Equal(len(pids), 0)
}

// TestStartLeavesNoThread: the threads that were in a group end, and no other
// of this process gets there, however many are started at once.
func TestStartLeavesNoThread(t *testing.T) {
	is := is.New(t)
	_, g, _ := newGroup(t, cgroup.Limits{})
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for range cap(errs) {
		wg.Go(func() {
			cmd := osexec.Command("true")
			err := g.Start(cmd)
			if err == nil {
				err = cmd.Wait()
			}
			errs <- err
		})
	}
	wg.Wait()
	for range cap(errs) {
		is.NoErr(<-errs)
	}
	is.NoErr(g.Remove(within(t))) // it would wait for a thread that is left, or kill this process
	tasks, err := filepath.Glob("/proc/self/task/*/cgroup")
	is.NoErr(err)
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		is.True(!strings.Contains(string(b), "sandbox-test")) // no thread
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestSweep(t *testing.T) {
	is := is.New(t)
	h, g, id := newGroup(t, cgroup.Limits{})
	ours := func(name string) bool { return name == id }
	there := func() bool {
		ids, err := h.List()
		is.NoErr(err)
		return slices.Contains(ids, id)
	}
	h.Sweep(time.Hour, ours)
	is.True(there()) // it is new
	cmd := sleeper(t)
	is.NoErr(g.Start(cmd))
	h.Sweep(0, ours)
	is.True(there()) // somebody is in it
	is.NoErr(cmd.Process.Kill())
	is.Equal(cmd.Wait().Error(), "signal: killed")
	h.Sweep(0, func(string) bool { return false })
	is.True(there()) // it may be another's
	for there() {    // the kernel may still be at it
		is.NoErr(t.Context().Err())
		h.Sweep(0, ours)
	}
}

func TestStartFails(t *testing.T) {
	is := is.New(t)
	_, g, _ := newGroup(t, cgroup.Limits{})
	is.True(os.IsNotExist(g.Start(osexec.Command("/nonexistent"))))
	is.NoErr(g.Remove(t.Context()))
	is.True(g.Start(osexec.Command("true")) != nil) // never outside of the group
}

func TestUsage(t *testing.T) {
	is := is.New(t)
	_, g, _ := newGroup(t, cgroup.Limits{Memory: 256 << 20})
	m, err := g.Meter()
	is.NoErr(err)
	defer m.Close()

	// A file is written, then memory is filled; each is told when it is done.
	cmd := osexec.Command("python3", "-c", `
import sys
with open(sys.argv[1], "wb") as f: f.write(bytes(64 << 20))
print(flush=True)
sys.stdin.readline()
x = bytearray(b"x") * (64 << 20)
print(flush=True)
sys.stdin.readline()`, filepath.Join(t.TempDir(), "file"))
	in, err := cmd.StdinPipe()
	is.NoErr(err)
	out, err := cmd.StdoutPipe()
	is.NoErr(err)
	is.NoErr(g.Start(cmd))
	read := func() (used, total int64) {
		_, err := io.ReadFull(out, make([]byte, 1))
		is.NoErr(err)
		used, err = m.Used()
		is.NoErr(err)
		total, err = m.Total()
		is.NoErr(err)
		return used, total
	}
	used, total := read()
	is.True(used < 32<<20) // page cache is not in use
	is.True(total > used)  //
	fmt.Fprintln(in)
	used, total = read()
	is.True(used > 64<<20 && used < 96<<20)
	is.True(total >= used)
	cpu, err := g.CPU()
	is.NoErr(err)
	is.True(cpu > time.Millisecond)
	fmt.Fprintln(in)
	is.NoErr(cmd.Wait())
}

func TestOOMKills(t *testing.T) {
	is := is.New(t)
	_, g, _ := newGroup(t, cgroup.Limits{Memory: 32 << 20})
	m, err := g.Meter()
	is.NoErr(err)
	defer m.Close()
	n, err := m.Kills()
	is.NoErr(err)
	is.Equal(n, int64(0))
	cmd := osexec.Command("python3", "-c", `bytearray(b"x") * (256 << 20)`)
	is.NoErr(g.Start(cmd))
	is.Equal(cmd.Wait().Error(), "signal: killed")
	n, err = g.OOMKills()
	is.NoErr(err)
	is.True(n > 0)
	again, err := m.Kills()
	is.NoErr(err)
	is.Equal(again, n)
}

// TestCPU: time is what counts, not the clock, which a busy machine stretches.
func TestCPU(t *testing.T) {
	is := is.New(t)
	_, g, _ := newGroup(t, cgroup.Limits{CPUs: 0.2})
	cmd := osexec.Command("python3", "-c", `
import time
end = time.monotonic() + 0.5
while time.monotonic() < end: pass`)
	start := time.Now()
	is.NoErr(g.Start(cmd))
	is.NoErr(cmd.Wait())
	took := time.Since(start)
	cpu, err := g.CPU()
	is.NoErr(err)
	is.True(cpu < took/2) // a fifth, and what a period may go over
}

func TestJSON(t *testing.T) {
	is := is.New(t)
	_, g, id := newGroup(t, cgroup.Limits{})
	b, err := json.Marshal(g)
	is.NoErr(err)
	var again cgroup.Group
	is.NoErr(json.Unmarshal(b, &again))
	is.NoErr(again.Check(id))
	is.NoErr(again.Remove(t.Context()))
	for _, p := range g.Places {
		_, err := os.Stat(p.Dir)
		is.True(os.IsNotExist(err))
	}
}

// TestNoGroup: where nothing can be used, a group is nothing and works.
func TestNoGroup(t *testing.T) {
	is := is.New(t)
	g := &cgroup.Group{}
	is.NoErr(g.Make(cgroup.Limits{Memory: 1, CPUs: 1, Pids: 1}))
	is.NoErr(g.Start(osexec.Command("true")))
	_, err := g.Meter()
	is.Equal(err, cgroup.ErrNone)
	_, err = g.OOMKills()
	is.Equal(err, cgroup.ErrNone)
	is.NoErr(g.Remove(t.Context()))
}

func TestQuota(t *testing.T) {
	is := is.New(t)
	is.Equal(cgroup.Quota(2), int64(200_000))
	is.Equal(cgroup.Quota(0.5), int64(50_000))
	is.Equal(cgroup.Quota(0.0001), int64(1000)) // the least there is
}
