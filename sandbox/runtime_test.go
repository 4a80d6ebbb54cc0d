//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// sleeper returns once a command runs that will not end by itself, and where
// its end is told.
func sleeper(t *testing.T, sb *sandbox.Sandbox) <-chan error {
	t.Helper()
	end := make(chan error, 1)
	up, says := io.Pipe()
	t.Cleanup(func() { up.Close() })
	go func() {
		cmd := sb.Command("sh", "-c", "echo up; sleep 1000")
		cmd.Stdout = says
		err := cmd.Run(t.Context())
		says.CloseWithError(err)
		end <- err
	}()
	if _, err := io.ReadFull(up, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	return end
}

func TestCloseLeavesNothing(t *testing.T) {
	is := is.New(t)
	before := runtimetest.Snapshot()
	rt := runtimetest.New(t, sandbox.Config{})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	end := sleeper(t, sb)
	is.NoErr(rt.Close())
	e, ok := errors.AsType[*sandbox.ExitError](<-end)
	is.True(ok && e.Cause == sandbox.CauseEnded) // a running command learns why it ended
	is.True(errors.Is(e, sandbox.ErrEnded))
	is.NoErr(rt.Close()) // twice is fine
	_, err = rt.Lease(t.Context(), sandbox.Spec{})
	is.True(errors.Is(err, sandbox.ErrClosed))
	is.Equal(runtimetest.Left(before), nil)
}

func TestManySandboxesAtOnce(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	const n = 20
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			errs[i] = func() error {
				sb, err := rt.Lease(t.Context(), sandbox.Spec{})
				if err != nil {
					return err
				}
				mark := fmt.Sprint("mark ", i)
				if err := sb.WriteFile(t.Context(), "mark", strings.NewReader(mark), 0o644); err != nil {
					return err
				}
				out, err := sb.Command("cat", "mark").Output(t.Context())
				if string(out) != mark {
					return fmt.Errorf("%q, %w", out, err)
				}
				return nil
			}()
		})
	}
	wg.Wait()
	is.NoErr(errors.Join(errs...))
	count := 0
	for info, err := range rt.List(t.Context()) {
		is.NoErr(err)
		is.Equal(info.Status, sandbox.StatusRunning)
		count++
	}
	is.Equal(count, n)
}

func TestManyCommandsAtOnce(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	const n = 200
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			text := strings.Repeat(fmt.Sprintln("line", i), 100)
			cmd := sb.Command("cat")
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.Output(t.Context())
			if string(out) != text {
				errs[i] = fmt.Errorf("command %d: %d bytes for %d: %w", i, len(out), len(text), err)
			}
		})
	}
	wg.Wait()
	is.NoErr(errors.Join(errs...))
}

func TestOneRuntimeARoot(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	_, err := runtimetest.Open(t, sandbox.Config{Root: root})
	is.True(errors.Is(err, sandbox.ErrInUse))
	is.True(strings.Contains(err.Error(), root)) // names the folder
	is.NoErr(rt.Close())
	again, err := runtimetest.Open(t, sandbox.Config{Root: root})
	is.NoErr(err)
	is.NoErr(again.Close())
}

func TestDetachAndTakeOver(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	owner := sandbox.Owner{Org: "acme", Actor: "ann"}
	sb, err := rt.For(owner).Lease(t.Context(), sandbox.Spec{Env: []string{"KEPT=yes"}})
	is.NoErr(err)
	is.NoErr(sb.WriteFile(t.Context(), "kept", strings.NewReader("kept"), 0o600))
	before, err := sb.Info(t.Context())
	is.NoErr(err)
	is.NoErr(rt.Detach())
	_, err = sb.Info(t.Context())
	is.NoErr(err) // what is known stays known

	next := runtimetest.New(t, sandbox.Config{Root: root})
	again, err := next.For(owner).Attach(t.Context(), sb.ID())
	is.NoErr(err)
	after, err := again.Info(t.Context())
	is.NoErr(err)
	is.True(before.Expires.Equal(after.Expires))
	is.Equal(before.Owner, after.Owner)
	out, err := again.Command("sh", "-c", "cat kept; echo $KEPT").Output(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "keptyes\n")
	is.NoErr(next.Close())
	entries, err := os.ReadDir(filepath.Join(root, "sandboxes"))
	is.NoErr(err)
	is.Equal(len(entries), 0) // Close, unlike Detach, ends them
}

func TestTakeOverClearsWhatIsBroken(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	id := strings.Repeat("a1z", 7)
	dir := filepath.Join(root, "sandboxes", id)
	is.NoErr(os.MkdirAll(dir, 0o700))
	is.NoErr(os.WriteFile(filepath.Join(dir, "lease.json"), []byte(`{"id":"`+id+`","status":"running","engine":[{"pid":1,"started":1}]}`), 0o600))
	is.NoErr(os.MkdirAll(filepath.Join(root, "sandboxes", strings.Repeat("b", 21)), 0o700))
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	entries, err := os.ReadDir(filepath.Join(root, "sandboxes"))
	is.NoErr(err)
	is.Equal(len(entries), 0)
	_, err = rt.Attach(t.Context(), id)
	is.True(errors.Is(err, sandbox.ErrEnded))
}

func TestRootWithALongPath(t *testing.T) {
	is := is.New(t)
	root := filepath.Join(t.TempDir(), strings.Repeat("d", 120), strings.Repeat("e", 120))
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.NoErr(sb.Command("true").Run(t.Context()))
}

func TestRootThatCannotBe(t *testing.T) {
	is := is.New(t)
	file := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(file, nil, 0o600))
	_, err := runtimetest.Open(t, sandbox.Config{Root: filepath.Join(file, "root")})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), file)) // names the folder
	_, err = runtimetest.Open(t, sandbox.Config{Root: "/proc/sandbox"})
	is.True(err != nil)
}

func TestLeaseEndsByTime(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{TTL: 1500 * time.Millisecond, Fixed: true})
	is.NoErr(err)
	err = sb.Command("sleep", "1000").Run(runtimetest.Context(t, 20*time.Second))
	e, ok := errors.AsType[*sandbox.ExitError](err)
	is.True(ok)
	is.Equal(e.Cause, sandbox.CauseEnded)
}

func TestLostSandbox(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	end := sleeper(t, sb)
	is.NoErr(runtimetest.SignalEngine(root, sb.ID(), syscall.SIGKILL))
	e, ok := errors.AsType[*sandbox.ExitError](<-end)
	is.True(ok)
	is.Equal(e.Cause, sandbox.CauseLost)
	is.True(errors.Is(e, sandbox.ErrLost))
	err = sb.Command("true").Run(runtimetest.Context(t, 10*time.Second))
	is.True(errors.Is(err, sandbox.ErrLost))
	is.NoErr(sb.End(t.Context()))
	is.True(errors.Is(sb.End(t.Context()), sandbox.ErrEnded))
}

func TestEngineThatHasStopped(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	end := sleeper(t, sb)
	is.NoErr(runtimetest.SignalEngine(root, sb.ID(), syscall.SIGSTOP))
	cmd := sb.Command("true")
	cmd.Timeout = 100 * time.Millisecond
	start := time.Now()
	is.True(errors.Is(cmd.Run(t.Context()), sandbox.ErrTimeout)) // it does not hang, nor
	_, err = fs.ReadFile(sb.FS(runtimetest.Context(t, 100*time.Millisecond)), "x")
	is.True(errors.Is(err, context.DeadlineExceeded))
	is.NoErr(sb.End(t.Context()))
	is.True(errors.Is(<-end, sandbox.ErrEnded))
	is.True(time.Since(start) < 5*time.Second)
}

func TestOwners(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	ann, bob := sandbox.Owner{Org: "acme", Actor: "ann"}, sandbox.Owner{Org: "acme", Actor: "bob"}
	sb, err := rt.For(ann).Lease(t.Context(), sandbox.Spec{Owner: bob})
	is.NoErr(err)
	info, err := sb.Info(t.Context())
	is.NoErr(err)
	is.Equal(info.Owner, ann) // the scope says who leases
	for _, other := range []sandbox.Owner{bob, {Org: "other", Actor: "ann"}, {Org: "other"}, {}} {
		_, theirs := rt.For(other).Attach(t.Context(), sb.ID())
		_, unknown := rt.For(other).Attach(t.Context(), strings.Repeat("x", 21))
		is.True(errors.Is(theirs, sandbox.ErrNotFound))
		is.Equal(strings.ReplaceAll(theirs.Error(), sb.ID(), ""), strings.ReplaceAll(unknown.Error(), strings.Repeat("x", 21), "")) // one cannot tell
		is.True(errors.Is(sandbox.Handle(rt.For(other), sb.ID()).Command("true").Run(t.Context()), sandbox.ErrNotFound))
		for range rt.For(other).List(t.Context()) {
			t.Fatal("it is listed")
		}
	}
	_, err = rt.For(sandbox.Owner{Org: "acme"}).Attach(t.Context(), sb.ID())
	is.NoErr(err) // the organisation sees its members'
	is.NoErr(sb.End(t.Context()))
	_, err = rt.For(bob).Attach(t.Context(), sb.ID())
	is.True(errors.Is(err, sandbox.ErrNotFound)) // nor that it has ended
	_, err = rt.For(ann).Attach(t.Context(), sb.ID())
	is.True(errors.Is(err, sandbox.ErrEnded))
}

func TestBadSpecs(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	for name, spec := range map[string]sandbox.Spec{
		"class":   {Class: "nosuch"},
		"image":   {Image: "nosuch"},
		"path":    {Image: "/"},
		"ttl":     {TTL: -1},
		"network": {Network: "host"},
		"env":     {Env: []string{"=x"}},
		"nul":     {Env: []string{"A=\x00"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			_, err := rt.Lease(t.Context(), spec)
			is.True(errors.Is(err, sandbox.ErrInvalid) || errors.Is(err, sandbox.ErrNotFound))
		})
	}
	for range rt.List(t.Context()) {
		t.Fatal("a bad Spec left a sandbox")
	}
}

func TestDirectoryImage(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	busybox, err := os.ReadFile("/bin/busybox")
	if errors.Is(err, fs.ErrNotExist) {
		runtimetest.Lacks(t, "this machine has no static busybox to make an image of")
	}
	is.NoErr(err)
	is.NoErr(os.Mkdir(filepath.Join(root, "bin"), 0o755))
	is.NoErr(os.WriteFile(filepath.Join(root, "bin", "sh"), busybox, 0o755))
	is.NoErr(os.Chmod(root, 0o755))
	link := filepath.Join(t.TempDir(), "link")
	is.NoErr(os.Symlink(root, link)) // which is as good
	rt := runtimetest.New(t, sandbox.Config{Images: sandbox.Local{Dirs: map[string]string{"tiny": link}}})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Image: "tiny"})
	is.NoErr(err)
	out, err := sb.Command("sh", "-c", "pwd; echo ~").Output(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "/mnt/data\n/home/sandbox\n")
	entries, err := os.ReadDir(root)
	is.NoErr(err)
	for _, e := range entries { // it has got mount points, and nothing else
		if e.Name() == "bin" {
			continue
		}
		is.NoErr(filepath.WalkDir(filepath.Join(root, e.Name()), func(_ string, d fs.DirEntry, err error) error {
			is.True(d.IsDir())
			return err
		}))
	}
	is.NoErr(sb.Command("sh", "-c", "! echo x > /bin/x && ! echo x > /x").Run(t.Context())) // nor can it
}

func TestLeaseOfACancelledCaller(t *testing.T) {
	is := is.New(t)
	before := runtimetest.Snapshot()
	rt := runtimetest.New(t, sandbox.Config{})
	for after := time.Duration(0); after < 400*time.Millisecond; after += 40 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		sb, err := rt.Lease(ctx, sandbox.Spec{})
		cancel()
		if err == nil { // it was faster
			is.NoErr(sb.End(t.Context()))
			continue
		}
		is.True(errors.Is(err, context.DeadlineExceeded))
	}
	for range rt.List(t.Context()) {
		t.Fatal("a cancelled lease left a sandbox")
	}
	is.NoErr(rt.Close())
	is.Equal(runtimetest.Left(before), nil)
}

func TestTakeOverCollects(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	old := filepath.Join(root, "bin", "old")
	is.NoErr(os.MkdirAll(old, 0o700))
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	_, err := os.Stat(old)
	is.True(errors.Is(err, fs.ErrNotExist)) // nobody used it
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.NoErr(rt.Detach())
	next := runtimetest.New(t, sandbox.Config{Root: root})
	again, err := next.Attach(t.Context(), sb.ID())
	is.NoErr(err)
	is.NoErr(again.Command("cat", "/etc/passwd").Run(t.Context())) // its image is still there
}

// broken is an image that cannot be started.
type broken struct{ root string }

func (b broken) Image(context.Context, sandbox.ImageRequest) (*sandbox.Image, error) {
	return &sandbox.Image{Root: b.root, Binds: []sandbox.Bind{{Source: "/nonexistent/source", Target: "/opt"}}}, nil
}

func TestStartThatFails(t *testing.T) {
	is := is.New(t)
	before := runtimetest.Snapshot()
	rt := runtimetest.New(t, sandbox.Config{Images: broken{t.TempDir()}})
	_, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "/nonexistent/source")) // the engine's own words
	is.NoErr(rt.Close())
	is.Equal(runtimetest.Left(before), nil)
}

func TestWithoutRoot(t *testing.T) {
	is := is.New(t)
	cmd := osexec.Command("/proc/self/exe")
	cmd.Env = []string{askNew + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	is.NoErr(err)
	is.True(strings.Contains(string(out), "needs root")) // what is missing, and
	is.True(strings.Contains(string(out), "sudo"))       // how to get it
}

func TestProgramBuiltWithCgo(t *testing.T) {
	is := is.New(t)
	program := filepath.Join(t.TempDir(), "quickstart")
	build := osexec.Command("go", "build", "-o", program, "../examples/quickstart")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err = osexec.Command(program).CombinedOutput()
	is.True(err != nil)
	is.True(strings.Contains(string(out), "CGO_ENABLED=0"))
	is.True(strings.Contains(string(out), "go env -w CGO_ENABLED=0"))
	is.Equal(strings.Count(string(out), "\n"), 1) // one clear sentence
}

func TestExecutableThatIsNot(t *testing.T) {
	is := is.New(t)
	for _, path := range []string{"/bin/true", "/etc/passwd", "/nonexistent"} {
		_, err := sandbox.New(sandbox.Config{Executable: path})
		is.True(err != nil)
	}
	_, err := sandbox.New(sandbox.Config{Runsc: "nosuchrunsc"})
	is.True(err != nil && strings.Contains(err.Error(), "Config.Runsc"))
}

// TestKVMIsLeftAlone watches the device: on some machines even opening it
// hangs, and takes down who asks.
func TestKVMIsLeftAlone(t *testing.T) {
	is := is.New(t)
	const device = "/dev/kvm"
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	is.NoErr(err)
	defer unix.Close(watch)
	_, err = unix.InotifyAddWatch(watch, device, unix.IN_OPEN|unix.IN_ACCESS)
	if errors.Is(err, unix.ENOENT) {
		t.Log("this machine has none: what is watched is the folder, where it would be made")
		_, err = unix.InotifyAddWatch(watch, filepath.Dir(device), unix.IN_CREATE)
	}
	is.NoErr(err)
	is.NoErr(runtimetest.Lease(t, sandbox.Spec{}).Command("true").Run(t.Context()))
	_, err = unix.Read(watch, make([]byte, 4096))
	is.True(errors.Is(err, unix.EAGAIN)) // nobody has touched it
}

func TestRunscOnPath(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	self, err := os.Executable()
	is.NoErr(err)
	if helper := runtimetest.Executable(t); helper != "" {
		self = helper
	}
	script := "#!/bin/bash\nexec -a sandbox-runsc " + self + ` "$@"` + "\n"
	is.NoErr(os.WriteFile(filepath.Join(dir, "my-runsc"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	rt := runtimetest.New(t, sandbox.Config{Runsc: "my-runsc", Executable: runtimetest.Executable(t)})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.NoErr(sb.Command("true").Run(t.Context()))
}

func TestDetachEndsCommands(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	rt := runtimetest.New(t, sandbox.Config{Root: root})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	end := sleeper(t, sb)
	is.NoErr(rt.Detach())
	e, ok := errors.AsType[*sandbox.ExitError](<-end)
	is.True(ok && e.Cause == sandbox.CauseServer) // its sandbox has not ended
	next := runtimetest.New(t, sandbox.Config{Root: root})
	again, err := next.Attach(t.Context(), sb.ID())
	is.NoErr(err)
	is.Equal(processes(t, again, "sleep"), 0)
}

// askNew makes this test binary print what New says, and end.
const askNew = "SANDBOX_TEST_ASK_NEW"

// holdLease makes it lease a sandbox, print its engine's pid, and wait.
const holdLease = "SANDBOX_TEST_HOLD_LEASE"

// holdWith is the Config.Executable for that.
const holdWith = "SANDBOX_TEST_HOLD_WITH"

func TestOrphanOnAPrivateRootEnds(t *testing.T) {
	runtimetest.New(t, sandbox.Config{}) // skips where no engine can run
	is := is.New(t)
	cmd := osexec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), holdLease+"=1", holdWith+"="+runtimetest.Executable(t))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	is.NoErr(err)
	is.NoErr(cmd.Start())
	var pid int
	var root string
	_, err = fmt.Fscan(stdout, &pid, &root)
	is.NoErr(err)
	pidfd, err := unix.PidfdOpen(pid, 0)
	is.NoErr(err)
	defer unix.Close(pidfd)
	is.NoErr(cmd.Process.Kill())
	cmd.Wait()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 20_000)
	is.NoErr(err)
	is.Equal(n, 1) // the engine has ended, with nobody to end it

	runtimetest.New(t, sandbox.Config{})
	left, err := filepath.Glob(root)
	is.NoErr(err)
	is.Equal(len(left), 0) // the next Runtime has removed the rest
}
