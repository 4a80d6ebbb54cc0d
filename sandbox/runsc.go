//go:build linux

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/engine"
)

// engineFlags are runsc's own, for all of its commands.
//
//   - what is written over an image stays in the sandbox's memory; the default
//     leaves a file in the image's folder. An image's root is read-only, so
//     this is nothing; the size is there in case it is ever not;
//   - a socket that the init makes in its folder is one on the host;
//   - inside, cgroup v2 lets the init count and kill what a command started.
var engineFlags = []string{
	"--platform=systrap",
	"--network=none",
	"--overlay2=root:memory,size=64m",
	"--host-uds=create",
	"--in-sandbox-cgroup=v2",
	"--host-settings=ignore",
	"--ignore-cgroups",
}

// runsc starts the engine: the OCI runtime of that name, a program to us.
type runsc struct {
	path string // the executable
	name string // its argv[0]
	root string // where it keeps its state
}

func (r *runsc) command(ctx context.Context, log string, args ...string) *osexec.Cmd {
	flags := append([]string{"--root=" + r.root, "--log=" + log, "--log-format=json"}, engineFlags...)
	cmd := osexec.CommandContext(ctx, r.path, append(flags, args...)...)
	cmd.Args[0] = r.name
	cmd.Dir = "/"
	cmd.Env = []string{}
	return cmd
}

// start boots a sandbox from its bundle and returns when its init runs. The
// engine goes on by itself, in the group.
//
// A start under way is not broken off when ctx ends, for what it had started
// by then would be known to nobody. It is awaited, which takes a fraction of a
// second, and then undone by who asked for it.
func (r *runsc) start(ctx context.Context, id string, p places, group *cgroup.Group) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	patient, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), startTimeout, fmt.Errorf("engine: no start within %v: %w", startTimeout, ErrTimeout))
	defer cancel()
	// The sandbox inherits this descriptor for as long as it lives, so it
	// must not be a pipe, whose reader would wait for the end of that. The
	// lock goes with it, and tells whether anything of the engine lives.
	out, err := os.OpenFile(p.initLog, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := unix.Flock(int(out.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return &os.PathError{Op: "lock", Path: p.initLog, Err: err}
	}
	cmd := r.command(patient, p.engineLog, "run", "--bundle="+p.bundle, "--detach", id)
	cmd.Stdout, cmd.Stderr = out, out
	if err := group.Start(cmd); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	raiseFiles(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		if patient.Err() != nil {
			return context.Cause(patient)
		}
		return &startFailedError{err: err, log: lastLines(p.engineLog, p.initLog)}
	}
	return nil
}

// maxFiles is how many files an engine may have open: for each that is open
// inside it has one, and running out of them it could not even be spoken to.
const maxFiles = 1 << 20

// raiseFiles raises that limit of an engine that is just starting, for its
// children to inherit. Where that is not allowed it has what this process has.
func raiseFiles(pid int) {
	limit := unix.Rlimit{Cur: maxFiles, Max: maxFiles}
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil)
}

// stateFile is where the engine keeps what it knows of a sandbox.
func (r *runsc) stateFile(id string) string {
	return filepath.Join(r.root, id+"_sandbox:"+id+".state")
}

// processes are those of a sandbox's engine that live, its own first and then
// the one that opens files for it. There are none before it has got so far.
func (r *runsc) processes(id string) []process {
	b, err := os.ReadFile(r.stateFile(id))
	if err != nil {
		return nil
	}
	var state struct {
		Gofer   int `json:"goferPid"`
		Sandbox struct {
			PID int `json:"pid"`
		} `json:"sandbox"`
	}
	if json.Unmarshal(b, &state) != nil {
		return nil
	}
	var list []process
	for _, pid := range []int{state.Sandbox.PID, state.Gofer} {
		if pid <= 0 {
			continue
		}
		if p, err := findProcess(pid); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// forget removes what the engine keeps of a sandbox whose processes are gone.
// Its own command for that is not used: it kills by number, and after a crash
// the number may be another's.
func (r *runsc) forget(id string) error {
	state := r.stateFile(id)
	for _, path := range []string{state, strings.TrimSuffix(state, ".state") + ".lock", filepath.Join(r.root, "runsc-"+id+".sock")} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// close gives back what the engine keeps for all sandboxes together: a network
// namespace, mounted once for each start that found none.
func (r *runsc) close() error {
	for {
		err := unix.Unmount(filepath.Join(r.root, "null-netns"), unix.MNT_DETACH)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("engine: unmount: %w", err)
		}
	}
}

// A startFailedError is an engine that did not start, with what it said last.
type startFailedError struct {
	err error
	log []string
}

func (f *startFailedError) Error() string {
	if len(f.log) == 0 {
		return "engine: " + f.err.Error()
	}
	return "engine: " + f.err.Error() + ": " + strings.Join(f.log, "; ")
}

func (f *startFailedError) Unwrap() []error { return []error{f.err, ErrUnavailable} }

const (
	logLines = 5
	logBytes = 4 << 10
)

// lastLines returns the end of each log.
func lastLines(paths ...string) []string {
	var lines []string
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Size() > logBytes {
			f.Seek(-logBytes, io.SeekEnd)
		}
		b, _ := io.ReadAll(io.LimitReader(f, logBytes))
		f.Close()
		last := slices.DeleteFunc(strings.Split(string(b), "\n"), func(s string) bool { return strings.TrimSpace(s) == "" })
		lines = append(lines, last[max(len(last)-logLines, 0):]...)
	}
	return lines
}

// findEngine chooses what to start as the engine: what the configuration
// names, else this very program.
func findEngine(cfg *Config) (path, name string, err error) {
	switch {
	case cfg.Runsc != "":
		path, err = osexec.LookPath(cfg.Runsc)
		if err != nil {
			return "", "", fmt.Errorf("Config.Runsc: %w", err)
		}
		return path, "runsc", nil
	case cfg.Executable != "":
		return cfg.Executable, engine.Runsc, nil
	}
	return engine.Self, engine.Runsc, engine.Embedded()
}
