package runtimetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/internal/cgroup"
)

// A State is what a process holds that a Runtime may leave behind.
type State struct {
	mounts     []string
	processes  []string
	folders    []string
	cgroups    []string
	goroutines int
	files      int
}

// Snapshot takes the state as it is now.
func Snapshot() State {
	return State{
		mounts: mounts(), processes: engines(), folders: folders(), cgroups: cgroups(),
		goroutines: runtime.NumGoroutine(), files: files(),
	}
}

// Heap is how much memory this process has reachable, in bytes.
func Heap() int {
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// settle is how long what has been told to end may take to be gone.
const settle = 5 * time.Second

// Left says what is there now and was not before: engine processes, mounts,
// folders, control groups, descriptors and goroutines. It allows what is
// ending a moment.
func Left(before State) []string {
	end := time.Now().Add(settle)
	for {
		left := before.left()
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
		runtime.Gosched()
		time.Sleep(20 * time.Millisecond)
	}
}

func (before State) left() []string {
	now := Snapshot()
	var left []string
	for _, d := range []struct {
		what       string
		then, here []string
	}{
		{"mount", before.mounts, now.mounts},
		{"process", before.processes, now.processes},
		{"folder", before.folders, now.folders},
		{"cgroup", before.cgroups, now.cgroups},
	} {
		for _, name := range d.here {
			if !slices.Contains(d.then, name) {
				left = append(left, d.what+" "+name)
			}
		}
	}
	if now.files > before.files {
		left = append(left, fmt.Sprintf("%d descriptors, there were %d", now.files, before.files))
	}
	if now.goroutines > before.goroutines {
		var stacks bytes.Buffer
		pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		left = append(left, fmt.Sprintf("%d goroutines, there were %d:\n%s", now.goroutines, before.goroutines, stacks.String()))
	}
	return left
}

// mounts lists those in the temporary folder, where the Roots are.
func mounts() []string {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	var list []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, os.TempDir()) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// Isolate gives this test process a temporary folder of its own, in which all
// its Roots then are, and returns what removes it. It makes Left blind to what
// other test processes do at the same time.
func Isolate() (remove func()) {
	dir, err := os.MkdirTemp("", "sandboxtest-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", dir)
	return func() { os.RemoveAll(dir) }
}

// engines lists this process's children, and the parts of engines whose state
// is in its temporary folder: those of a running sandbox have another parent.
func engines() []string {
	entries, _ := os.ReadDir("/proc")
	var list []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || len(cmdline) == 0 { // a zombie holds nothing
			continue
		}
		if bytes.Contains(cmdline, []byte("--root="+os.TempDir())) || parent(pid) == os.Getpid() {
			list = append(list, e.Name()+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return list
}

func parent(pid int) int {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// folders lists the temporary folders of Runtimes without a Root.
func folders() []string {
	list, _ := filepath.Glob(filepath.Join(os.TempDir(), "sandbox-*"))
	return list
}

// cgroups lists the control groups of sandboxes in which there are engines of
// this process, or nobody: others' are left out.
func cgroups() []string {
	host := cgroup.Open()
	ids, _ := host.List()
	var list []string
	for _, id := range ids {
		pids, err := host.Group(id).Procs()
		ours := slices.ContainsFunc(pids, func(pid int) bool {
			cmdline, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			return bytes.Contains(cmdline, []byte("--root="+os.TempDir()))
		})
		if err == nil && (ours || len(pids) == 0) {
			list = append(list, id)
		}
	}
	return list
}

func files() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}
