package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/internal/engine"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// asDaemon has this test binary be the program that it tests.
const asDaemon = "SANDBOXD_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		os.Args = append([]string{"sandboxd"}, os.Args[1:]...)
		main()
		return
	}
	runtimetest.Main(m)
}

func daemonCommand(t testing.TB, root string, env []string, arg ...string) *osexec.Cmd {
	t.Helper()
	if engine.Embedded() != nil {
		runtimetest.Lacks(t, "this test binary does not carry the engine: ", engine.Embedded())
	}
	cmd := osexec.CommandContext(t.Context(), "/proc/self/exe", arg...)
	cmd.Env = append(append(os.Environ(), asDaemon+"=1", "SANDBOXD_ROOT="+root, "SANDBOXD_LISTEN=127.0.0.1:0"), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// output runs a command of the program's and returns what it prints.
func output(t *testing.T, root string, env []string, arg ...string) (string, error) {
	t.Helper()
	cmd := daemonCommand(t, root, env, arg...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

// A process is a server that runs.
type process struct {
	cmd   *osexec.Cmd
	lines []string // what it printed
	url   string
	err   chan error
}

func startDaemon(t testing.TB, root string, env ...string) *process {
	t.Helper()
	p := &process{cmd: daemonCommand(t, root, env), err: make(chan error, 1)}
	p.cmd.Stderr = t.Output()
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Signal(syscall.SIGTERM) })
	lines := bufio.NewScanner(stdout)
	for p.url == "" && lines.Scan() {
		p.lines = append(p.lines, lines.Text())
		p.url, _ = strings.CutPrefix(lines.Text(), "listening on ")
		if !strings.HasPrefix(p.url, "http") {
			p.url = ""
		}
	}
	go func() {
		io.Copy(io.Discard, stdout)
		p.err <- p.cmd.Wait()
	}()
	if p.url == "" {
		t.Fatal("the server did not start: ", <-p.err)
	}
	return p
}

func (p *process) key() string {
	for _, line := range p.lines {
		if key, ok := strings.CutPrefix(line, "key: "); ok {
			return key
		}
	}
	return ""
}

func (p *process) stop(t testing.TB) error {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.err:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("does not end")
		return nil
	}
}

func status(t testing.TB, url, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// endAll ends the sandboxes of a key's holder, which would outlive the server.
func endAll(t *testing.T, p *process, key string) {
	t.Helper()
	is := is.New(t)
	remote, err := client.New(p.url, client.Config{Key: key})
	is.NoErr(err)
	for info, err := range remote.List(t.Context()) {
		is.NoErr(err)
		is.NoErr(sandbox.Handle(remote, info.ID).End(t.Context()))
	}
}

// BenchmarkReady starts a server until it says that it is ready, which it does
// when a program has run.
func BenchmarkReady(b *testing.B) {
	root := b.TempDir()
	for b.Loop() {
		p := startDaemon(b, root)
		if got := status(b, p.url+"/readyz", ""); got != http.StatusOK {
			b.Fatal(got)
		}
		b.StopTimer()
		if err := p.stop(b); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// TestHeaderTooLarge has a request's head be bounded.
func TestHeaderTooLarge(t *testing.T) {
	is := is.New(t)
	p := startDaemon(t, t.TempDir(), "SANDBOXD_KEY=sk-a-key-for-automation")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/livez", nil)
	is.NoErr(err)
	req.Header.Set("X-Large", strings.Repeat("x", 256<<10))
	resp, err := http.DefaultClient.Do(req)
	is.NoErr(err)
	resp.Body.Close()
	is.Equal(resp.StatusCode, http.StatusRequestHeaderFieldsTooLarge)
	is.NoErr(p.stop(t))
}

// TestDaemon is a server's life: its first start, commands beside it, its end
// under a sandbox, and the next start.
func TestDaemon(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	first := startDaemon(t, root)
	key := first.key()
	is.True(strings.HasPrefix(key, "sk-"))
	is.Equal(status(t, first.url+"/livez", ""), 200)
	is.Equal(status(t, first.url+"/readyz", ""), 200) // a program has run
	is.Equal(status(t, first.url+"/v1/sandbox", ""), 401)
	is.Equal(status(t, first.url+"/v1/sandbox", key), 200)

	ada, err := output(t, root, nil, "keys", "create", "--org", "acme", "--user", "ada")
	is.NoErr(err)
	ada = strings.TrimSpace(ada)
	is.Equal(status(t, first.url+"/v1/sandbox", ada), 200)
	list, err := output(t, root, nil, "keys", "list")
	is.NoErr(err)
	is.True(!strings.Contains(list, ada))
	var id string
	for line := range strings.Lines(list) {
		if strings.Contains(line, "acme") {
			id = strings.Fields(line)[0]
		}
	}
	_, err = output(t, root, nil, "keys", "revoke", id)
	is.NoErr(err)
	is.Equal(status(t, first.url+"/v1/sandbox", ada), 401) // at once

	remote, err := client.New(first.url, client.Config{Key: key})
	is.NoErr(err)
	sb, err := remote.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	is.NoErr(sb.WriteFile(t.Context(), "file", strings.NewReader("kept"), 0o644))
	up, says := io.Pipe()
	cmd := sb.Command("sh", "-c", "echo up; sleep 600")
	cmd.Stdout = says
	ran := make(chan error, 1)
	go func() { ran <- cmd.Run(context.Background()) }()
	_, err = io.ReadFull(up, make([]byte, 3))
	is.NoErr(err)
	is.NoErr(first.stop(t))
	is.True(<-ran != nil) // what ran is over

	second := startDaemon(t, root)
	is.Equal(second.key(), "") // it was shown once
	remote, err = client.New(second.url, client.Config{Key: key})
	is.NoErr(err)
	again, err := remote.Attach(t.Context(), sb.ID())
	is.NoErr(err) // the sandbox lives on
	out, err := again.Command("cat", "file").Output(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "kept")
	_, err = output(t, root, []string{"SANDBOXD_LISTEN=127.0.0.1:0"})
	is.True(err != nil && strings.Contains(err.Error(), "held by another")) // one server a root
	is.NoErr(again.End(t.Context()))
	is.NoErr(second.stop(t))

	usage, err := output(t, root, nil, "ledger", "usage", "--org", "default")
	is.NoErr(err)
	is.True(strings.Contains(usage, "lease"))
	b, err := os.ReadFile(filepath.Join(root, "server.db"))
	is.NoErr(err)
	is.True(!bytes.Contains(b, []byte(key)))
}

func TestSeededKey(t *testing.T) {
	is := is.New(t)
	const key = "sk-a-key-for-automation"
	p := startDaemon(t, t.TempDir(), "SANDBOXD_KEY="+key)
	is.Equal(p.key(), "")
	is.Equal(status(t, p.url+"/v1/sandbox", key), 200)
	is.NoErr(p.stop(t))
}

// TestRefusedToStart has what cannot be meant not be served.
func TestRefusedToStart(t *testing.T) {
	for _, env := range []string{
		"CODE_EXEC_FEE_CENTS=free", "CODE_EXEC_FEE_CENTS_RUN=-1", "CODE_EXEC_FEE_CENTS=1.5", "SANDBOX_FEE_CENTS_DEV=x", "SANDBOX_FEE_CENTS_NOPE=5", "SANDBOX_FEE_CENTSDEV=3", "SANDBOX_HOUR_CENTS=9999999999999",
		"SANDBOXD_BILLING=sometimes", "SANDBOXD_RUNS=many", "SANDBOXD_IMAGES=nosuch=x", "SANDBOXD_CHARGE=0s", "SANDBOXD_KEY=short", "SANDBOX_EXEC_TIMEOUT_SEC=soon", "SANDBOXD_LISTEN=nowhere",
	} {
		if out, err := output(t, t.TempDir(), []string{env}); err == nil {
			t.Errorf("%s was taken: %s", env, out)
		}
	}
}

// TestNumbersThatCannotBeMeant gives each flag that is a number what is none,
// by itself and by its variable. It is refused by name, in one sentence.
func TestNumbersThatCannotBeMeant(t *testing.T) {
	for _, flag := range []string{
		"json-body", "file-body", "run-time", "runs", "org-runs", "rate", "burst", "max-life", "idle", "grace", "charge",
	} {
		values := []string{"-1", "0"}
		if slices.Contains([]string{"run-time", "max-life", "idle", "grace", "charge"}, flag) {
			values = []string{"-1s", "0s", "-1ns"}
		}
		if flag == "rate" {
			values = append(values, "NaN", "Inf", "-Inf", "-0.5")
		}
		for _, value := range values {
			variable := "SANDBOXD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
			for _, env := range []*environment{given([]string{"--" + flag, value}), given(nil, variable+"="+value)} {
				_, err := settingsOf(env)
				if flag == "grace" && value == "0s" {
					if err != nil {
						t.Errorf("no grace is a grace: %v", err)
					}
					continue
				}
				if err == nil || !errors.Is(err, errUsage) || !strings.Contains(err.Error(), "--"+flag+" ") || strings.Contains(err.Error(), "\n") {
					t.Errorf("--%s %s, by %v: %v", flag, value, env.args, err)
				}
			}
		}
	}
}

// given is an environment of arguments and variables.
func given(args []string, kv ...string) *environment {
	return &environment{
		args: args, all: func() []string { return kv }, stdout: io.Discard, stderr: io.Discard,
		get: func(name string) (string, bool) {
			for _, s := range kv {
				if value, ok := strings.CutPrefix(s, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
	}
}

func TestLedgerCommands(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	for range 2 {
		_, err := output(t, root, nil, "ledger", "credit", "--org", "acme", "250", "--ref", "invoice 7")
		is.NoErr(err)
	}
	out, err := output(t, root, nil, "ledger", "balance", "--org", "acme")
	is.NoErr(err)
	is.Equal(out, "250\n")
	for range 2 {
		_, err := output(t, root, nil, "ledger", "debit", "--org", "acme", "251", "--ref", "invoice 7")
		is.NoErr(err)
	}
	out, err = output(t, root, nil, "ledger", "balance", "--org", "acme")
	is.NoErr(err)
	is.Equal(out, "-1\n") // a credit by mistake, taken back
	out, err = output(t, root, nil, "ledger", "usage", "--org", "acme")
	is.NoErr(err)
	is.True(!strings.Contains(out, "acme")) // which is nothing that was had
	for _, arg := range [][]string{{"ledger"}, {"ledger", "credit", "--org", "acme", "much"}, {"ledger", "credit", "5"}, {"ledger", "credit", "--org", "acme", "0"}, {"ledger", "credit", "--org", "acme", "--", "-5"}, {"ledger", "debit", "--org", "acme", "--", "-5"}, {"keys"}, {"keys", "create"}, {"keys", "revoke", "nosuch"}, {"nosuch"}} {
		if out, err := output(t, root, nil, arg...); err == nil {
			t.Errorf("%q was taken: %s", arg, out)
		}
	}
}

func TestFees(t *testing.T) {
	is := is.New(t)
	of := func(kv ...string) (*settings, error) { return settingsOf(given(nil, kv...)) }
	s, err := of()
	is.NoErr(err)
	is.Equal(s.fees.Run, int64(1))
	is.Equal(s.listen, "127.0.0.1:8080")
	s, err = of("CODE_EXEC_FEE_CENTS=5")
	is.NoErr(err)
	is.Equal(s.fees.Run, int64(5))
	s, err = of("CODE_EXEC_FEE_CENTS_RUN=0", "CODE_EXEC_FEE_CENTS=5", "SANDBOX_FEE_CENTS=2", "SANDBOX_FEE_CENTS_DEV=7")
	is.NoErr(err)
	is.Equal(s.fees.Run, int64(0))
	is.Equal(s.fees.Lease, map[string]int64{"": 2, "dev": 7})
	s, err = of("SANDBOXD_BILLING=prepaid", "SANDBOXD_RUN_TIME=5s")
	is.NoErr(err)
	is.True(s.fees.Prepaid)
	is.Equal(s.limits.RunTime, 5*time.Second)
}
