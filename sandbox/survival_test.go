//go:build linux

package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// load makes this test binary put a mixed load on a Root until it is killed,
// telling what has been acknowledged.
const (
	loadRoot = "SANDBOX_TEST_LOAD_ROOT"
	loadWith = "SANDBOX_TEST_LOAD_WITH"
)

const loaders = 4

func load() {
	var mu sync.Mutex
	say := func(words ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(words...)
	}
	rt, err := sandbox.New(sandbox.Config{
		Root: os.Getenv(loadRoot), Executable: os.Getenv(loadWith),
		Events: func(e sandbox.Event) { say("event", e.ID, e.Generation, e.Kind) },
	})
	if err != nil {
		say("failed", err)
		return
	}
	say("up")
	ctx := context.Background()
	for i := range loaders {
		go func() {
			for n := 1; ; n++ {
				if err := loadOnce(ctx, rt, i, n, say); err != nil {
					say("failed", i, err)
					return
				}
			}
		}()
	}
	select {}
}

// loadOnce is one round of one loader's: a project with a file that counts up,
// and beside it a sandbox that is used once.
func loadOnce(ctx context.Context, rt *sandbox.Runtime, i, n int, say func(...any)) error {
	project := fmt.Sprint("p", i)
	var id string
	for info := range rt.List(ctx) {
		if info.Project == project {
			id = info.ID
		}
	}
	sb, err := rt.Lease(ctx, sandbox.Spec{ID: id, Project: project})
	if err != nil {
		return err
	}
	b, err := fs.ReadFile(sb.FS(ctx), "count")
	count, _ := strconv.Atoi(string(b))
	if err == nil {
		say("read", i, count)
	}
	if err := sb.WriteFile(ctx, "count", strings.NewReader(strconv.Itoa(count+1)), 0o644); err != nil {
		return err
	}
	say("wrote", i, count+1)
	go sb.Command("sleep", "1000").Run(ctx)
	switch n % 4 {
	case 1:
		err = sb.Pause(ctx)
	case 2:
		err = sb.End(ctx)
	case 3:
		_, err = sb.Renew(ctx, time.Hour)
	}
	if err != nil {
		return err
	}
	once, err := rt.Lease(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	if err := once.Command("true").Run(ctx); err != nil {
		return err
	}
	return once.End(ctx)
}

// TestKilledUnderLoad kills the process that holds the Runtime, again and
// again, at any moment.
func TestKilledUnderLoad(t *testing.T) {
	is := is.New(t)
	if testing.Short() {
		t.Skip("it kills processes for a minute")
	}
	runtimetest.New(t, sandbox.Config{}) // skips where no engine can run
	before := runtimetest.Snapshot()
	root := t.TempDir()
	rounds := 5
	if soaking() {
		rounds = 50
	}
	wrote, events := map[string]int{}, newLedger()
	for range rounds {
		killLoad(t, root, wrote, events)
	}
	rt := runtimetest.New(t, sandbox.Config{Root: root, Events: events.event})
	known := map[string]bool{}
	for info, err := range rt.List(t.Context()) {
		is.NoErr(err)
		is.True(info.Status == sandbox.StatusRunning || info.Status == sandbox.StatusParked)
		known[info.ID] = true
	}
	entries, err := os.ReadDir(root + "/sandboxes")
	is.NoErr(err)
	for _, e := range entries {
		is.True(known[e.Name()]) // what is on disk is on the list
	}
	for i, last := range wrote {
		var id string
		for info := range rt.List(t.Context()) {
			if info.Project == "p"+i {
				id = info.ID
			}
		}
		sb, err := rt.Lease(t.Context(), sandbox.Spec{ID: id, Project: "p" + i})
		is.NoErr(err)
		got, err := strconv.Atoi(readFile(t, sb, "count"))
		is.NoErr(err)
		is.True(got == last || got == last+1) // the last may have been written and not told
		is.Equal(processes(t, sb, "sleep"), 0)
	}
	is.NoErr(rt.Close())
	is.Equal(runtimetest.Left(before), nil)
	events.check(t)
}

// killLoad runs the load for a while of its own, kills it, and adds up what it
// told.
func killLoad(t *testing.T, root string, wrote map[string]int, events *ledger) {
	t.Helper()
	cmd := osexec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), loadRoot+"="+root, loadWith+"="+runtimetest.Executable(t))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	line, _ := said.ReadString('\n')
	for strings.HasPrefix(line, "event ") { // what the last one could not tell
		events.enter(strings.TrimPrefix(line, "event "))
		line, _ = said.ReadString('\n')
	}
	if line != "up\n" {
		t.Fatal(line)
	}
	kill := time.AfterFunc(time.Duration(rand.Int64N(int64(3*time.Second))), func() { cmd.Process.Kill() })
	defer kill.Stop()
	rest, err := io.ReadAll(said)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	for line := range strings.Lines(string(rest)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		i, n, _ := strings.Cut(rest, " ")
		count, _ := strconv.Atoi(n)
		switch word {
		case "event":
			events.enter(rest)
		case "wrote":
			wrote[i] = count
		case "read":
			if count < wrote[i] {
				t.Errorf("project %s: wrote %d, read %d", i, wrote[i], count)
			}
		case "failed":
			t.Error(line)
		}
	}
}

// TestCycles leases, uses and ends sandboxes one after another and looks for
// what grows.
func TestCycles(t *testing.T) {
	is := is.New(t)
	cycles := 40
	if soaking() {
		cycles = 1000
	}
	rt := runtimetest.New(t, sandbox.Config{})
	cycle := func(n int) {
		for i := range n {
			spec := sandbox.Spec{}
			if i%4 == 0 {
				spec.Project = "p"
			}
			sb, err := rt.Lease(t.Context(), spec)
			is.NoErr(err)
			is.NoErr(sb.Command("true").Run(t.Context()))
			is.NoErr(sb.End(t.Context()))
		}
	}
	cycle(10) // what is made once is made
	before, heap := runtimetest.Snapshot(), runtimetest.Heap()
	cycle(cycles)
	is.Equal(runtimetest.Left(before), nil)
	grown := runtimetest.Heap() - heap
	t.Logf("%d cycles: the heap grew by %d KiB", cycles, grown>>10)
	is.True(grown < 2<<20)
}
