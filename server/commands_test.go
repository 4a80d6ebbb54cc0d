package server_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A desk is a server with one sandbox, and a caller.
type desk struct {
	t    testing.TB
	url  string
	key  string
	id   string
	keys keyring
	m    *memory
}

func newDesk(t testing.TB, cfg server.Config) *desk {
	d := &desk{t: t, m: newMemory(t), keys: keyring{}}
	if cfg.Sandboxes == nil {
		cfg.Sandboxes = d.m.For
	}
	cfg.Keys = d.keys
	d.url, d.key = start(t, cfg).URL, d.keys.add("acme", "ada", false)
	var out struct{ ID string }
	d.post("/v1/sandbox", `{}`, &out)
	d.id = out.ID
	return d
}

// send sends a request and returns the answer, whose body the test closes.
func (d *desk) send(ctx context.Context, method, path, body string) *http.Response {
	d.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// post wants a success and reads it into v, and returns the status.
func (d *desk) post(path, body string, v any) int {
	d.t.Helper()
	resp := d.send(d.t.Context(), http.MethodPost, path, body)
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode
}

func object(kv ...any) string {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

type ran struct {
	ExitCode       int
	Stdout, Stderr string
	Cause          string
	Code, Detail   string // of a problem
}

func (d *desk) exec(kv ...any) (ran, int) {
	d.t.Helper()
	var r ran
	status := d.post("/v1/sandbox/"+d.id+"/exec", object(kv...), &r)
	return r, status
}

func TestExecAnswers(t *testing.T) {
	d := newDesk(t, server.Config{})
	for name, c := range map[string]struct {
		body []any
		want ran
	}{
		"argv is not split":       {[]any{"argv", []string{"printf", `%s\n`, "a b", "$HOME", "c\nd"}}, ran{Stdout: "a b\n$HOME\nc\nd\n"}},
		"argv wins":               {[]any{"argv", []string{"echo", "argv"}, "command", "echo command"}, ran{Stdout: "argv\n"}},
		"command is a shell line": {[]any{"command", "echo out; echo err >&2"}, ran{Stdout: "out\n", Stderr: "err\n"}},
		"a failure is a success":  {[]any{"command", "exit 3"}, ran{ExitCode: 3}},
		"no such program":         {[]any{"argv", []string{"nosuch"}}, ran{ExitCode: 127, Cause: "start", Stderr: "nosuch: no such file or directory\n"}},
		"stdin":                   {[]any{"argv", []string{"cat"}, "stdin", "in\x00ü"}, ran{Stdout: "in\x00ü"}},
		"dir":                     {[]any{"argv", []string{"pwd"}, "dir", "/tmp"}, ran{Stdout: "/tmp\n"}},
		"env":                     {[]any{"command", "echo $A", "env", []string{"A=b"}}, ran{Stdout: "b\n"}},
		"unknown fields":          {[]any{"argv", []string{"true"}, "nosuch", 1, "id", "ignored"}, ran{}},
		"huge timeout":            {[]any{"argv", []string{"true"}, "timeoutSec", int64(1) << 62}, ran{}},
		"negative timeout":        {[]any{"argv", []string{"true"}, "timeoutSec", -1}, ran{}},
		"no UTF-8":                {[]any{"command", "cat bytes"}, ran{Stdout: "\uFFFD\uFFFDx"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?path=bytes", "\xff\xfex")
			got, status := d.exec(c.body...)
			is.Equal(status, 200)
			if c.want.Cause == "" {
				c.want.Cause = "exit"
			}
			is.Equal(got, c.want)
		})
	}
}

func TestQueryIsNoBody(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{})
	var r ran
	status := d.post("/v1/sandbox/"+d.id+"/exec?command=echo+query&argv=echo&stdin=x", object("command", "echo body"), &r)
	is.Equal(status, 200)
	is.Equal(r.Stdout, "body\n")
}

func TestOutputIsCut(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{})
	text := strings.Repeat("é", 1<<20) // 2 MiB, with a rune across the border of every odd cut
	d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?path=large", "x"+text)
	got, status := d.exec("command", "cat large; echo end >&2")
	is.Equal(status, 200)
	is.Equal(got.ExitCode, 0) // it was not killed
	is.Equal(got.Stderr, "end\n")
	head, ok := strings.CutSuffix(got.Stdout, "\n[truncated at 1MiB]")
	is.True(ok)
	is.True(len(head) <= 1<<20 && len(head) > 1<<20-4)
	is.True(strings.HasPrefix("x"+text, head))
}

func TestReadsAreWhole(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{})
	var b strings.Builder
	for i := range 600_000 {
		fmt.Fprintf(&b, "%d,", i)
	}
	content := b.String() + "\xff\x00"
	d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?path=large", content)
	raw, err := io.ReadAll(d.send(t.Context(), "GET", "/v1/sandbox/"+d.id+"/fs?path=large", "").Body)
	is.NoErr(err)
	is.True(string(raw) == content)
	var blob struct {
		Path string
		Dir  bool
		Data []byte
	}
	is.Equal(d.post("/v1/sandbox/read", object("id", d.id, "path", "large"), &blob), 200)
	is.True(string(blob.Data) == content)
	is.Equal(blob.Path, "/mnt/data/large")
	is.True(!blob.Dir)
	tail, err := io.ReadAll(d.send(t.Context(), "GET", fmt.Sprintf("/v1/sandbox/%s/fs?path=large&offset=%d", d.id, len(content)-5), "").Body)
	is.NoErr(err)
	is.Equal(string(tail), content[len(content)-5:])
}

func TestDirectories(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{})
	d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?path=dir/b.txt", "12345")
	d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?path=dir/.a", "")
	d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?path=empty&mkdir=1", "")
	raw, err := io.ReadAll(d.send(t.Context(), "GET", "/v1/sandbox/"+d.id+"/fs?path=+dir+", "").Body)
	is.NoErr(err)
	is.Equal(string(raw), ".a\nb.txt\n")
	type listing struct {
		Dir     bool
		Data    *string
		Entries []string
		Stats   []struct {
			Name, Type string
			Size       int64
		}
	}
	var l listing
	is.Equal(d.post("/v1/sandbox/read", object("id", d.id, "path", "dir"), &l), 200)
	is.True(l.Dir)
	is.Equal(l.Entries, []string{".a", "b.txt"})
	is.Equal(l.Stats[1].Size, int64(5))
	is.Equal(l.Stats[1].Type, "file")
	l = listing{}
	is.Equal(d.post("/v1/sandbox/read", object("id", d.id, "path", "empty"), &l), 200)
	is.True(l.Entries != nil && len(l.Entries) == 0)
	l = listing{}
	is.NoErr(json.NewDecoder(d.send(t.Context(), "GET", "/v1/sandbox/"+d.id+"/fs?stat=tree", "").Body).Decode(&l))
	var names []string
	for _, s := range l.Stats {
		names = append(names, s.Name)
	}
	is.Equal(names, []string{"dir", "dir/.a", "dir/b.txt", "empty"})
}

func TestPathRule(t *testing.T) {
	d := newDesk(t, server.Config{})
	for path, want := range map[string]int{
		"/a.txt": 400, "..": 400, "a/../b": 400, "a..b": 400, "/mnt/datax": 400, "%00": 400, "/mnt/data/ok": 200, " ok ": 200,
	} {
		is := is.New(t)
		path = strings.ReplaceAll(path, " ", "+")
		is.Equal(d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?path="+path, "x").StatusCode, want)
		is.Equal(d.send(t.Context(), "GET", "/v1/sandbox/"+d.id+"/fs?path="+path, "").StatusCode, want)
	}
	is := is.New(t)
	is.Equal(d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?verbatim=1&path=a..b", "x").StatusCode, 200)
}

// events reads a stream of events.
func events(t *testing.T, r io.Reader) (stdout, stderr string, last map[string]any) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		last = map[string]any{}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Fatal(err)
		}
		text, _ := last["data"].(string)
		if b, ok := last["base64"].(string); ok {
			raw, err := base64.StdEncoding.DecodeString(b)
			if err != nil {
				t.Fatal(err)
			}
			text = string(raw)
		}
		switch last["type"] {
		case "stdout":
			stdout += text
		case "stderr":
			stderr += text
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return stdout, stderr, last
}

func TestStream(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{})
	content := strings.Repeat("é\xff", 1<<20)
	d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/fs?path=large", content)
	resp := d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/exec", object("command", "cat large; echo err >&2; exit 5", "stream", true))
	is.Equal(resp.Header.Get("Content-Type"), "application/x-ndjson")
	stdout, stderr, last := events(t, resp.Body)
	is.True(stdout == content) // nothing is cut, whatever the bytes
	is.Equal(stderr, "err\n")
	is.Equal(last["type"], "exit")
	is.Equal(last["exitCode"], 5.0)

	resp = d.send(t.Context(), "POST", "/v1/sandbox/run", object("id", d.id, "command", "echo up; sleep 60", "timeoutSec", 1, "stream", true))
	stdout, _, last = events(t, resp.Body)
	is.Equal(stdout, "up\n") // what there was is told
	is.Equal(last["cause"], "timeout")

	is.Equal(d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/exec", object("stream", true)).StatusCode, 400) // while there can be a status
	is.Equal(d.send(t.Context(), "POST", "/v1/sandbox/"+never+"/exec", object("stream", true, "command", "x")).StatusCode, 404)
}

// up waits until a streamed command prints.
func up(t *testing.T, r io.Reader) *bufio.Reader {
	t.Helper()
	b := bufio.NewReader(r)
	line, err := b.ReadString('\n')
	if err != nil || !strings.Contains(line, "up") {
		t.Fatalf("%q, %v", line, err)
	}
	return b
}

func TestStop(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{})
	var other struct{ ID string }
	d.post("/v1/sandbox", `{}`, &other)
	var bodies []*bufio.Reader
	for range 2 {
		resp := d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/exec", object("command", "echo up; sleep 60", "stream", true))
		bodies = append(bodies, up(t, resp.Body))
	}
	elsewhere := up(t, d.send(t.Context(), "POST", "/v1/sandbox/"+other.ID+"/exec", object("command", "echo up; sleep 60", "stream", true)).Body)
	var stopped struct{ Stopped int }
	is.Equal(d.post("/v1/sandbox/stop", object("id", d.id), &stopped), 200)
	is.Equal(stopped.Stopped, 2)
	for _, b := range bodies {
		_, _, last := events(t, b)
		is.Equal(last["cause"], "killed")
	}
	is.Equal(d.post("/v1/sandbox/stop", object("id", d.id), &stopped), 200)
	is.Equal(stopped.Stopped, 0) // they are forgotten
	is.Equal(d.post("/v1/sandbox/stop", object("id", other.ID), &stopped), 200)
	is.Equal(stopped.Stopped, 1) // the other went on until now
	events(t, elsewhere)
}

// TestCallerGone has a command end with the connection that it was asked for
// by.
func TestCallerGone(t *testing.T) {
	is := is.New(t)
	ended := make(chan struct{})
	d := newDesk(t, server.Config{Narrate: func(context.Context, server.Narration) server.Narrator { return &narrator{ended: ended} }})
	ctx, cancel := context.WithCancel(t.Context())
	resp := d.send(ctx, "POST", "/v1/sandbox/run", object("id", d.id, "command", "echo up; sleep 60", "stream", true, "session", "s"))
	up(t, resp.Body)
	cancel()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		is.Fail() // it runs on
	}
}

type narrator struct {
	mu     sync.Mutex
	stdout strings.Builder
	status sandbox.ExitStatus
	ended  chan struct{}
}

func (n *narrator) Stdout(p []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stdout.Write(p)
}

func (n *narrator) Stderr([]byte) {}

func (n *narrator) Ended(s sandbox.ExitStatus, _ error) {
	n.status = s
	close(n.ended)
}

func TestNarrationAndSecrets(t *testing.T) {
	is := is.New(t)
	n := &narrator{ended: make(chan struct{})}
	var told server.Narration
	d := newDesk(t, server.Config{Narrate: func(_ context.Context, of server.Narration) server.Narrator {
		told = of
		return n
	}})
	const secret = "s3cr3t \"tok<en>\""
	key := "-----BEGIN KEY-----\nfirst-line-of-it\nsecond-line-of-it\n-----END KEY-----"
	quoted, err := json.Marshal(secret)
	is.NoErr(err)
	text := "a " + secret + " b " + string(quoted) + " c second-line-of-it d -----BEGIN KEY----- short s3cr3t \"tok"
	var r ran
	status := d.post("/v1/sandbox/run", object("id", d.id, "argv", []string{"printf", `%s\n`, text}, "blind", []string{secret, key, "short"}, "session", "the-session", "events", true), &r)
	is.Equal(status, 200)
	want := `a [redacted] b "[redacted]" c [redacted] d -----BEGIN KEY----- short s3cr3t "tok` + "\n"
	is.Equal(r.Stdout, want)
	<-n.ended
	is.Equal(n.stdout.String(), want) // the narration neither
	is.Equal(n.status.Code, 0)
	is.Equal(told.Session, "the-session")
	is.Equal(told.Owner, sandbox.Owner{Org: "acme", Actor: "ada"})
}

func TestRunsWait(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{Limits: server.Limits{OrgRuns: 1, QueueTime: 50 * time.Millisecond}})
	up(t, d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/exec", object("command", "echo up; sleep 60", "stream", true)).Body)
	resp := d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/exec", object("command", "true"))
	is.Equal(resp.StatusCode, 429)
	is.True(resp.Header.Get("Retry-After") != "")
	d.key = d.keys.add("other", "eve", false) // who does not wait for them
	var out struct{ ID string }
	d.post("/v1/sandbox", `{}`, &out)
	d.id = out.ID
	_, status := d.exec("command", "true")
	is.Equal(status, 200)
}

// TestRunsOfAllWait has what all run be bounded, beside what one organisation
// does.
func TestRunsOfAllWait(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{Limits: server.Limits{Runs: 1, QueueTime: 50 * time.Millisecond}})
	resp := d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/exec", object("command", "echo up; sleep 60", "stream", true))
	rest := up(t, resp.Body)
	id := d.id
	d.key = d.keys.add("other", "eve", false)
	var out struct{ ID string }
	d.post("/v1/sandbox", `{}`, &out)
	d.id = out.ID
	_, status := d.exec("command", "true")
	is.Equal(status, 429)
	d.key = d.keys.add("acme", "ada", false)
	var stopped struct{ Stopped int }
	is.Equal(d.post("/v1/sandbox/stop", object("id", id), &stopped), 200)
	io.Copy(io.Discard, rest) // until it is over
	d.id = id
	_, status = d.exec("command", "true")
	is.Equal(status, 200) // its place is free again
}
