//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

func TestMain(m *testing.M) { testscript.Main(checked{m}, map[string]func(){"hanzo": main}) }

// checked fails the run when the tests have left anything behind.
type checked struct{ *testing.M }

func (c checked) Run() int {
	remove := runtimetest.Isolate()
	defer remove()
	// What delivers signals runs from the first time on that some are wanted.
	wanted := make(chan os.Signal, 1)
	signal.Notify(wanted, syscall.SIGWINCH)
	signal.Stop(wanted)
	before := runtimetest.Snapshot()
	code := c.M.Run()
	if left := runtimetest.Left(before); len(left) > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "left behind:\n"+strings.Join(left, "\n"))
		code = 1
	}
	return code
}

// keys have an organisation each.
type keys struct{ orgs sync.Map }

func (k *keys) Key(_ context.Context, hash [sha256.Size]byte) (server.Key, error) {
	org, ok := k.orgs.Load(hash)
	if !ok {
		return server.Key{}, server.ErrNoKey
	}
	return server.Key{ID: org.(string), Org: org.(string), User: "ada"}, nil
}

func (k *keys) add(org string) (secret string) {
	secret = server.NewKey()
	k.orgs.Store(server.HashKey(secret), org)
	return secret
}

// newServer is a server with the engine behind it.
func newServer(t testing.TB) (url string, known *keys) {
	t.Helper()
	rt := runtimetest.New(t, sandbox.Config{})
	it, err := exec.New(rt, exec.Config{})
	if err != nil {
		t.Fatal(err)
	}
	known = &keys{}
	h, err := server.New(server.Config{
		Sandboxes: server.Runtime(rt), Interpreter: server.Interpret(it, server.Runtime(rt)), Keys: known,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, known
}

// TestScripts runs those in testdata, each with a home of its own.
func TestScripts(t *testing.T) {
	url, known := newServer(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			key := known.add(filepath.Base(env.WorkDir))
			env.Setenv("HANZO_BASE_URL", url)
			env.Setenv("HANZO_API_KEY", key)
			env.Setenv("KEY", key)
			env.Setenv("XDG_CONFIG_HOME", env.Getenv("WORK")+"/config")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"lease": lease, "code": code},
	})
}

// lease leases a sandbox and puts its id into $ID.
func lease(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("hanzo", append([]string{"sandbox", "lease", "-o", "name"}, args...)...))
	ts.Setenv("ID", strings.TrimSpace(ts.ReadFile("stdout")))
}

// code wants a command to end with an exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	if got := fmt.Sprint(err); neg || got != "exit status "+args[0] {
		ts.Fatalf("got %q, want exit code %s", got, args[0])
	}
}
