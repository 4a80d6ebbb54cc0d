//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// holder is a program that has so much memory, in MiB, until its standard
// input ends.
func holder(t *testing.T, sb *sandbox.Sandbox, size int) (release func() error) {
	t.Helper()
	cmd := sb.Command("python3", "-c", fmt.Sprintf("x = b'x' * (%d << 20); print('up', flush=True); input()", size))
	stdin, hold := io.Pipe()
	up, says := io.Pipe()
	cmd.Stdin, cmd.Stdout = stdin, says
	end := make(chan error, 1)
	go func() { end <- cmd.Run(t.Context()) }()
	if _, err := io.ReadFull(up, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	return func() error {
		fmt.Fprintln(hold)
		hold.Close()
		return <-end
	}
}

// hog takes all memory that it can get, a little at a time.
func hog(sb *sandbox.Sandbox) *sandbox.Cmd {
	return sb.Command("python3", "-c", "l = []\nwhile True: l.append(b'x' * (4 << 20))")
}

func ranOutOfMemory(is *is.I, err error) {
	is.Helper()
	e, ok := errors.AsType[*sandbox.ExitError](err)
	is.True(ok)
	is.Equal(e.Cause, sandbox.CauseMemory)
	is.Equal(e.Code, 137)
	is.Equal(e.Signal, syscall.SIGKILL)
	is.Equal(e.Error(), "out of memory")
}

func TestOutOfMemory(t *testing.T) {
	is := is.New(t)
	rt, sb := limited(t, "", sandbox.Spec{Memory: 512 * mib})
	other, err := rt.Lease(t.Context(), sandbox.Spec{Memory: 512 * mib})
	is.NoErr(err)
	releaseOther := holder(t, other, 64)
	release := holder(t, sb, 64)
	for range 2 { // it can be done again
		ranOutOfMemory(is, hog(sb).Run(t.Context()))
	}
	is.NoErr(release()) // the smaller program goes on
	is.NoErr(releaseOther())
	info, err := sb.Info(t.Context())
	is.NoErr(err)
	is.Equal(info.Status, sandbox.StatusRunning)
	is.Equal(info.Limits, sandbox.Limits{CPUs: 2, Memory: 512 * mib, Pids: 512})
	n, err := cgroup.Open().Group(sb.ID()).OOMKills()
	is.NoErr(err)
	is.Equal(n, int64(0)) // it was not the kernel
}

// TestOutOfMemoryByWhatIsLeft: a job that an ended command has left in the
// background is as good to kill as a command.
func TestOutOfMemoryByWhatIsLeft(t *testing.T) {
	is := is.New(t)
	_, sb := limited(t, "", sandbox.Spec{Memory: 512 * mib})
	leave := sb.Command("sh", "-c", `python3 -c 'x = b"x" * (300 << 20); open("up", "w"); import time; time.sleep(7334)' & while ! test -e up; do sleep 0.1; done`)
	is.NoErr(leave.Run(t.Context()))
	is.Equal(processes(t, sb, "7334"), 1)
	is.NoErr(holder(t, sb, 250)()) // together they are too large
	is.Equal(processes(t, sb, "7334"), 0)
}

// TestPageCacheIsNotMemory: what is written to disk fills the memory of this
// machine as long as nobody wants it for more, and that is no one's fault.
func TestPageCacheIsNotMemory(t *testing.T) {
	is := is.New(t)
	_, sb := limited(t, "", sandbox.Spec{Memory: 512 * mib})
	release := holder(t, sb, 200)
	is.NoErr(sb.Command("sh", "-c", "head -c 1G /dev/zero > big").Run(t.Context()))
	meter, err := cgroup.Open().Group(sb.ID()).Meter()
	is.NoErr(err)
	defer meter.Close()
	total, err := meter.Total()
	is.NoErr(err)
	is.True(total > 512*mib) // by far
	used, err := meter.Used()
	is.NoErr(err)
	is.True(used < 300*mib)
	is.NoErr(sb.Command("sh", "-c", "cat big > /dev/null; rm big").Run(t.Context()))
	is.NoErr(release())
}

// TestMemoryOfNoCommand: while there is nothing to kill in a sandbox that is
// full, a command that starts is not let grow until the kernel ends it all.
func TestMemoryOfNoCommand(t *testing.T) {
	is := is.New(t)
	// So much that the kernel's limit is some way above, on a busy machine too.
	_, sb := limited(t, "", sandbox.Spec{Memory: 1536 * mib})
	other := osexec.CommandContext(t.Context(), "python3", "-c", "x = b'x' * (1536 << 20); print('up', flush=True); input()")
	hold, err := other.StdinPipe()
	is.NoErr(err)
	up, err := other.StdoutPipe()
	is.NoErr(err)
	is.NoErr(cgroup.Open().Group(sb.ID()).Start(other))
	_, err = io.ReadFull(up, make([]byte, 3))
	is.NoErr(err)
	for range 8 {
		ranOutOfMemory(is, hog(sb).Run(t.Context()))
	}
	hold.Close()
	other.Wait()
	is.NoErr(sb.Command("true").Run(t.Context()))
}

// TestFilesInMemoryAreBounded: with every file system full there is memory to
// run programs in.
func TestFilesInMemoryAreBounded(t *testing.T) {
	is := is.New(t)
	_, sb := limited(t, "", sandbox.Spec{Memory: 256 * mib})
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/home/sandbox"} {
		out := sh(t, sb, "head -c 1G /dev/zero > "+dir+"/full; df --output=avail "+dir+" | tail -1")
		is.True(strings.Contains(out, "No space left on device"))
		is.True(strings.HasSuffix(out, " 0"))
	}
	is.NoErr(holder(t, sb, 64)())
	ranOutOfMemory(is, hog(sb).Run(t.Context()))
	is.NoErr(sb.Command("true").Run(t.Context()))
}

// TestLostToTheKernel: when memory grows faster than a command can be killed,
// this machine's own limit ends the sandbox. Here it is too low.
func TestLostToTheKernel(t *testing.T) {
	is := is.New(t)
	rt, sb := limited(t, "", sandbox.Spec{Memory: 512 * mib})
	group := cgroup.Open().Group(sb.ID())
	is.NoErr(group.Limit(cgroup.Limits{Memory: 160 * mib}))
	ranOutOfMemory(is, hog(sb).Run(t.Context()))
	info := infoWhen(t, rt, sb.ID(), sandbox.StatusError)
	err := sb.Command("true").Run(t.Context())
	is.True(errors.Is(err, sandbox.ErrLost))           // not the program alone
	is.True(strings.Contains(err.Error(), info.Error)) // who comes later is told as well
	is.True(strings.Contains(info.Error, "out of memory") && strings.Contains(info.Error, "512 MiB"))
	is.NoErr(sb.End(t.Context()))
}

// infoWhen waits for a sandbox to get to a status.
func infoWhen(t *testing.T, rt *sandbox.Runtime, id string, status sandbox.Status) sandbox.Info {
	t.Helper()
	ctx := runtimetest.Context(t, 30*time.Second)
	for {
		info, err := rt.Info(ctx, id)
		if err != nil || info.Status == status {
			return info
		}
		select {
		case <-ctx.Done():
			t.Fatal("it stays ", info.Status)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestSmallestSandbox(t *testing.T) {
	is := is.New(t)
	_, sb := limited(t, "", sandbox.Spec{Memory: sandbox.MinMemory, CPUs: 0.25})
	is.NoErr(holder(t, sb, 40)())
	ranOutOfMemory(is, hog(sb).Run(t.Context()))
	is.NoErr(sb.Command("true").Run(t.Context()))
}
