package sandboxtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

func newMemory(t *testing.T) *sandboxtest.Memory {
	t.Helper()
	m := sandboxtest.NewMemory()
	t.Cleanup(func() { m.Close() })
	return m
}

func lease(t *testing.T, m *sandboxtest.Memory) *sandbox.Sandbox {
	t.Helper()
	sb, err := m.Lease(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

func TestMemory(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: newMemory(t)})
}

// TestDriverAlone has the handle make do with what every Driver has.
func TestDriverAlone(t *testing.T) {
	m := newMemory(t)
	alone := struct{ sandbox.Driver }{m}
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: struct {
		sandbox.Driver
		leaser
	}{alone, leaser{m, alone}}})
}

// A mostly is a Driver with all abilities but one, as sandboxes elsewhere are.
type mostly struct {
	sandbox.Driver
	sandbox.FileSystem
	sandbox.Dialer
	sandbox.PortLister
	sandbox.Pauser
	sandbox.Purger
}

func TestDriverThatCannotRenew(t *testing.T) {
	m := newMemory(t)
	d := mostly{m, m, m, m, m, m}
	sandboxtest.Run(t, sandboxtest.Contract{Sandboxes: struct {
		mostly
		leaser
	}{d, leaser{m, d}}})
}

// A leaser leases sandboxes of a Memory whose handles are of another Driver.
type leaser struct {
	memory *sandboxtest.Memory
	driver sandbox.Driver
}

func (l leaser) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	sb, err := l.memory.Lease(ctx, spec)
	if err != nil {
		return nil, err
	}
	return sandbox.Handle(l.driver, sb.ID()), nil
}

func (l leaser) Attach(ctx context.Context, id string) (*sandbox.Sandbox, error) {
	if _, err := l.memory.Attach(ctx, id); err != nil {
		return nil, err
	}
	return sandbox.Handle(l.driver, id), nil
}

func TestPrograms(t *testing.T) {
	is := is.New(t)
	m := newMemory(t)
	m.Programs = map[string]sandboxtest.Program{
		"python3": func(_ context.Context, p *sandboxtest.Proc) int {
			code, err := p.ReadFile(p.Args[1])
			if err != nil {
				fmt.Fprintln(p.Stderr, err)
				return 2
			}
			fmt.Fprintf(p.Stdout, "%s in %s as %d", code, p.Dir, p.User.UID)
			if err := p.WriteFile("out.txt", []byte(p.Getenv("NAME")), 0o644); err != nil {
				return 3
			}
			return 7
		},
		"true": func(context.Context, *sandboxtest.Proc) int { return 9 },
	}
	sb := lease(t, m)
	is.NoErr(sb.WriteFile(t.Context(), "work/main.py", strings.NewReader("code"), 0o644))
	cmd := sb.Command("python3", "main.py")
	cmd.Dir, cmd.Env = "work", []string{"NAME=ada"}
	out, err := cmd.Output(t.Context())
	e, ok := errors.AsType[*sandbox.ExitError](err)
	is.True(ok)
	is.Equal(e.Code, 7)
	is.Equal(string(out), "code in /mnt/data/work as 1000")
	out, err = sb.Command("cat", "work/out.txt").Output(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "ada")
	_, err = sb.Command("sh", "-c", "python3 nosuch.py").Output(t.Context()) // in a shell too
	e, ok = errors.AsType[*sandbox.ExitError](err)
	is.True(ok)
	is.Equal(e.Code, 2)
	is.True(strings.Contains(string(e.Stderr), "nosuch.py"))
	e, ok = errors.AsType[*sandbox.ExitError](sb.Command("true").Run(t.Context()))
	is.True(ok && e.Code == 9) // a program replaces the one of that name
}

func TestScript(t *testing.T) {
	for script, want := range map[string]string{
		`echo a  b;echo "c  d" 'e $HOME' f\ g`:       "a b\nc  d e $HOME f g\n",
		"# nothing\necho a # b\n\necho c#d;":         "a\nc#d\n",
		`echo $NAME "$NAME" '$NAME' $NONE. $`:        "ada ada $NAME . $\n",
		`echo $0 $1 $2 $3`:                           "zero one two \n",
		`false; echo $?; true; echo $?`:              "1\n0\n",
		`echo a > f; echo b >f; cat f`:               "b\n",
		`echo lost > /dev/null; echo kept`:           "kept\n",
		`cat nosuch 2>/dev/null; echo $?`:            "1\n",
		`sh -c "echo \"in\"; exit 4" 2>&1 ; echo $?`: "in\n4\n",
		`echo "a\b\\c\$d"`:                           "a\\b\\c$d\n",
		`nosuch 2> err; cat err; echo ok`:            "sh: nosuch: no such file or directory\nok\n",
		`echo before; exit 0; echo after`:            "before\n",
	} {
		t.Run(script, func(t *testing.T) {
			is := is.New(t)
			cmd := lease(t, newMemory(t)).Command("sh", "-c", script, "zero", "one", "two")
			cmd.Env = []string{"NAME=ada"}
			out, err := cmd.CombinedOutput(t.Context())
			is.NoErr(err)
			is.Equal(string(out), want)
		})
	}
}

func TestScriptBeyondItsGrammar(t *testing.T) {
	is := is.New(t)
	sb := lease(t, newMemory(t))
	for _, script := range []string{"cat < f", "cat | cat", "$(id)", "ls *", "echo 'a", `echo "a`} {
		_, err := sb.Command("sh", "-c", script).Output(t.Context())
		e, ok := errors.AsType[*sandbox.ExitError](err)
		is.True(ok && e.Code == 2) // says so, rather than do something else
		is.True(len(e.Stderr) > 0)
	}
}

func TestServerInside(t *testing.T) {
	is := is.New(t)
	m := newMemory(t)
	m.Programs = map[string]sandboxtest.Program{"httpd": httpd}
	sb := lease(t, m)
	ready, says := io.Pipe()
	cmd := sb.Command("httpd")
	cmd.Stdout = says
	done := make(chan error, 1)
	go func() { done <- cmd.Run(t.Context()) }()
	_, err := io.ReadFull(ready, make([]byte, 5))
	is.NoErr(err)
	transport := &http.Transport{DialContext: sb.DialContext}
	client := &http.Client{Transport: transport}
	for range 2 {
		resp, err := client.Post("http://localhost:8080/path", "text/plain", strings.NewReader(strings.Repeat("x", 200_000)))
		is.NoErr(err)
		b, err := io.ReadAll(resp.Body)
		is.NoErr(err)
		is.NoErr(resp.Body.Close())
		is.Equal(string(b), "/path 200000")
	}
	is.NoErr(sb.End(t.Context()))
	is.True(errors.Is(<-done, sandbox.ErrEnded))
	transport.CloseIdleConnections()
	_, err = client.Get("http://localhost:8080/")
	is.True(errors.Is(err, sandbox.ErrEnded))
}

func httpd(ctx context.Context, p *sandboxtest.Proc) int {
	l, err := p.Listen(8080)
	if err != nil {
		return 1
	}
	if _, err := p.Listen(8080); !errors.Is(err, syscall.EADDRINUSE) {
		return 2
	}
	io.WriteString(p.Stdout, "ready")
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, r.URL.Path, " ", len(b))
	}))
	return 0
}

// TestMemoryTime needs no time of its own: a Memory waits for events alone,
// and leaves no goroutine behind.
func TestMemoryTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		m := sandboxtest.NewMemory()
		sb, err := m.Lease(t.Context(), sandbox.Spec{TTL: 3 * time.Hour, Fixed: true})
		is.NoErr(err)
		start := time.Now()
		is.NoErr(sb.Command("sleep", "3600").Run(t.Context()))
		is.Equal(time.Since(start), time.Hour)
		cmd := sb.Command("sh", "-c", "sleep 36000 & sleep 36000")
		cmd.Timeout = time.Hour
		is.True(errors.Is(cmd.Run(t.Context()), sandbox.ErrTimeout))
		is.Equal(time.Since(start), 2*time.Hour)
		is.NoErr(sb.Command("sh", "-c", "sleep 36000 & listen 80 &").Run(t.Context()))
		is.True(errors.Is(sb.Command("sleep", "36000").Run(t.Context()), sandbox.ErrEnded))
		is.Equal(time.Since(start), 3*time.Hour)
		is.NoErr(m.Close())
	})
}

func TestMemoryClose(t *testing.T) {
	is := is.New(t)
	m := sandboxtest.NewMemory()
	sb := lease(t, m)
	var out bytes.Buffer
	cmd := sb.Command("sh", "-c", "sleep 1000 & echo up")
	cmd.Stdout = &out
	is.NoErr(cmd.Run(t.Context()))
	is.NoErr(m.Close())
	is.NoErr(m.Close())
	is.True(errors.Is(sb.Command("true").Run(t.Context()), sandbox.ErrEnded))
	_, err := m.Lease(t.Context(), sandbox.Spec{})
	is.True(errors.Is(err, sandbox.ErrClosed))
}
