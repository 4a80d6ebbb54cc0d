//go:build linux

package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// TestMain fails the run when the tests, each of which closes what it opened,
// have left anything behind.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(askNew) != "":
		_, err := sandbox.New(sandbox.Config{})
		fmt.Println(err)
		return
	case os.Getenv(crashRoot) != "":
		crash()
		return
	case os.Getenv(loadRoot) != "":
		load()
	case os.Getenv(holdLease) != "":
		hold()
	}
	runtimetest.Main(m)
}

// hold leases a sandbox on a private Root and waits to be killed.
func hold() {
	rt, err := sandbox.New(sandbox.Config{Executable: os.Getenv(holdWith)})
	if err != nil {
		panic(err)
	}
	sb, err := rt.Lease(context.Background(), sandbox.Spec{})
	if err != nil {
		panic(err)
	}
	rows, _ := filepath.Glob(filepath.Join(os.TempDir(), "sandbox-*", "sandboxes", sb.ID()))
	root := filepath.Dir(filepath.Dir(rows[0]))
	pid, err := runtimetest.EnginePID(root, sb.ID())
	if err != nil {
		panic(err)
	}
	fmt.Println(pid, root)
	select {}
}
