// Package runtimetest gives tests a Runtime on the real engine, and finds what
// it leaves behind.
package runtimetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/internal/engine"
	"github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc" // the engine under test
)

// Require is the environment variable that turns a skipped test of the real
// engine into a failed one.
const Require = "SANDBOX_REQUIRE_ENGINE"

// New returns a Runtime that is closed when the test ends. Where the engine
// cannot run, the test is skipped with the reason.
func New(t testing.TB, cfg sandbox.Config) *sandbox.Runtime {
	t.Helper()
	rt, err := Open(t, cfg)
	if errors.Is(err, sandbox.ErrUnavailable) {
		Lacks(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// Lacks skips a test that this machine has not what it takes for, and fails it
// where nothing may be skipped.
func Lacks(t testing.TB, reason ...any) {
	t.Helper()
	if os.Getenv(Require) != "" {
		t.Fatal(reason...)
	}
	t.Skip(reason...)
}

// Open is sandbox.New with an executable that can serve in this test binary
// and, unless one is given, a logger that writes to the test's log.
func Open(t testing.TB, cfg sandbox.Config) (*sandbox.Runtime, error) {
	t.Helper()
	if cfg.Executable == "" && cfg.Runsc == "" {
		cfg.Executable = Executable(t)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	return sandbox.New(cfg)
}

// Lease returns a sandbox of a new Runtime.
func Lease(t testing.TB, spec sandbox.Spec) *sandbox.Sandbox {
	t.Helper()
	sb, err := New(t, sandbox.Config{}).Lease(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// Context returns a context for one step of a test, which bounds it.
func Context(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

var built = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "hanzo-sandbox-test", "engine")
	cmd := osexec.Command("go", "build", "-o", path, "github.com/hanzoai/sandbox/internal/runtimetest/engine")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

// Executable is the Config.Executable that a Runtime needs in this test
// binary: none, or the static program, which is built once a run.
func Executable(t testing.TB) string {
	t.Helper()
	if !errors.Is(engine.Embedded(), engine.ErrCgo) {
		return ""
	}
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// SignalEngine signals the engine of a sandbox under root from outside, as the
// kernel or an operator might.
func SignalEngine(root, id string, sig syscall.Signal) error {
	pid, err := EnginePID(root, id)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}

// Alive reports whether a process runs, or could.
func Alive(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	state := b[bytes.LastIndexByte(b, ')')+1:]
	return !bytes.HasPrefix(state, []byte(" Z")) && !bytes.HasPrefix(state, []byte(" X"))
}

// EditRow changes what is kept of a sandbox on disk.
func EditRow(root, id string, edit func(row map[string]any)) error {
	path := filepath.Join(root, "sandboxes", id, "lease.json")
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	row := map[string]any{}
	if err := json.Unmarshal(b, &row); err != nil {
		return err
	}
	edit(row)
	if b, err = json.Marshal(row); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

// EnginePID is the number of the engine's own process.
func EnginePID(root, id string) (int, error) {
	b, err := os.ReadFile(filepath.Join(root, "sandboxes", id, "lease.json"))
	if err != nil {
		return 0, err
	}
	var row struct{ Engine []struct{ PID int } }
	if err := json.Unmarshal(b, &row); err != nil {
		return 0, err
	}
	if len(row.Engine) == 0 {
		return 0, errors.New("no engine")
	}
	return row.Engine[0].PID, nil
}
