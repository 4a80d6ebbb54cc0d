package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const agentKey = "sk-a-key-for-this-test"

type keyed struct{ key string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func overHTTP(url, key string) mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint: url + "/v1/mcp", HTTPClient: &http.Client{Transport: keyed{key}}, MaxRetries: -1,
	}
}

// An agent is a client of the tools, by the SDK in Go. The script that it goes
// through is that of server/mcp/clienttest, where the one in TypeScript does.
type agent struct {
	*mcp.ClientSession
	progress chan string
}

// newAgent connects by a version of the protocol; "" is the newest.
func newAgent(t *testing.T, by mcp.Transport, version string) *agent {
	t.Helper()
	a := &agent{progress: make(chan string, 100)}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { a.progress <- r.Params.Message },
	})
	var err error
	if a.ClientSession, err = client.Connect(t.Context(), by, &mcp.ClientSessionOptions{ProtocolVersion: version}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

type args = map[string]any

// call calls a tool, and returns its text and what it has besides.
func (a *agent) call(t *testing.T, tool string, in args) (string, args, *mcp.CallToolResult) {
	t.Helper()
	r, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	fields, _ := r.StructuredContent.(args)
	text, _ := r.Content[0].(*mcp.TextContent)
	if text == nil {
		return "", fields, r
	}
	return text.Text, fields, r
}

// TestAgents has one client do the same over each transport, with the engine
// behind them.
func TestAgents(t *testing.T) {
	t.Run("over a pipe", func(t *testing.T) {
		by := &mcp.CommandTransport{Command: daemonCommand(t, "", nil, "mcp")}
		agentScript(t, newAgent(t, by, ""))
	})
	root := t.TempDir()
	for name, version := range map[string]string{"over HTTP": "", "over HTTP in a session": "2025-06-18"} {
		t.Run(name, func(t *testing.T) {
			p := startDaemon(t, root, "SANDBOXD_KEY="+agentKey)
			a := newAgent(t, overHTTP(p.url, agentKey), version)
			if (a.ID() != "") != (version != "") {
				t.Fatalf("the session is %q", a.ID())
			}
			agentScript(t, a)
			t.Run("without a credential nothing is called", func(t *testing.T) { noCredential(t, p.url, version) })
			t.Run("a server that was started anew goes on", func(t *testing.T) { startedAnew(t, p, root, a, version) })
		})
	}
}

func noCredential(t *testing.T, url, version string) {
	is := is.New(t)
	stranger := newAgent(t, overHTTP(url, ""), version)
	_, err := stranger.ListTools(t.Context(), nil)
	is.NoErr(err)
	stranger.call(t, "describe", args{"op": "list_sandboxes"})
	_, err = stranger.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_sandboxes"})
	is.True(err != nil && strings.Contains(err.Error(), "credential"))
	stranger.call(t, "describe", args{"op": "list_sandboxes"}) // to be refused something is not the end
}

// startedAnew has a session be missing, of which the client knows that it is
// to begin another. Who has none does not even notice.
func startedAnew(t *testing.T, p *process, root string, a *agent, version string) {
	is := is.New(t)
	at, err := url.Parse(p.url)
	is.NoErr(err)
	p.stop(t)
	p = startDaemon(t, root, "SANDBOXD_KEY="+agentKey, "SANDBOXD_LISTEN="+at.Host)
	t.Cleanup(func() { p.stop(t) })
	_, err = a.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_sandboxes"})
	if version == "" {
		is.NoErr(err)
		return
	}
	is.True(errors.Is(err, mcp.ErrSessionMissing))
	_, all, _ := newAgent(t, overHTTP(p.url, agentKey), version).call(t, "list_sandboxes", nil)
	is.Equal(all["sandboxes"], []any{})
}

func agentScript(t *testing.T, a *agent) {
	is := is.New(t)
	t.Run("the tools are listed, and have schemas", func(t *testing.T) {
		is := is.New(t)
		list, err := a.ListTools(t.Context(), nil)
		is.NoErr(err)
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
			if tool.Name == "sandbox" {
				op := tool.InputSchema.(args)["properties"].(args)["op"].(args)
				is.Equal(len(op["enum"].([]any)), 17)
			}
		}
		slices.Sort(names)
		is.Equal(strings.Join(names, " "), "describe exec list_files read_file run_code run_command sandbox write_file")
	})
	t.Run("describe explains", func(t *testing.T) {
		is := is.New(t)
		for _, op := range []string{"get_download", "list_sandboxes"} {
			text, _, _ := a.call(t, "describe", args{"op": op})
			var about struct {
				Name        string
				InputSchema struct{ Type string }
				Annotations struct{ ReadOnlyHint bool }
			}
			is.NoErr(json.Unmarshal([]byte(text), &about))
			is.Equal(about.Name, op)
			is.Equal(about.InputSchema.Type, "object")
			is.True(about.Annotations.ReadOnlyHint)
		}
	})
	text, leased, _ := a.call(t, "sandbox", args{"op": "lease_sandbox", "input": args{}})
	id := leased["id"].(string)
	is.True(strings.Contains(text, `"id":"`+id+`"`))
	t.Run("it runs commands", func(t *testing.T) {
		is := is.New(t)
		_, ran, _ := a.call(t, "sandbox", args{"op": "run_in_sandbox", "input": args{"id": id, "argv": []string{"echo", "a  b"}}})
		is.Equal(ran["stdout"], "a  b\n")
		_, ran, r := a.call(t, "exec_sandbox", args{"id": id, "command": "exit 3"}) // by the operation's name
		is.Equal(ran["exitCode"], float64(3))
		is.True(!r.IsError) // the program failed, and not the call
	})
	t.Run("files go in and out", func(t *testing.T) {
		is := is.New(t)
		a.call(t, "write_sandbox_file", args{"id": id, "path": "d/f", "data": "aGk="})
		_, read, _ := a.call(t, "read_sandbox_file", args{"id": id, "path": "d/f"})
		is.Equal(read["data"], "aGk=")
		text, _, _ := a.call(t, "read_file", args{"id": id, "path": "d/f"})
		is.Equal(text, "hi")
		text, _, _ = a.call(t, "list_files", args{"id": id, "path": "d"})
		is.Equal(text, "f (2 bytes)\n")
	})
	t.Run("code runs, and its pictures are shown", func(t *testing.T) {
		is := is.New(t)
		const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
		code := "echo " + picture + " | base64 -d > plot_1.png; echo done"
		text, _, r := a.call(t, "run_code", args{"lang": "bash", "code": code, "session_id": id})
		is.True(strings.HasPrefix(text, "done\n[files: plot_1.png]"))
		shown, ok := r.Content[len(r.Content)-1].(*mcp.ImageContent)
		is.True(ok)
		is.Equal(shown.MIMEType, "image/png")
		is.Equal(base64.StdEncoding.EncodeToString(shown.Data), picture)
	})
	t.Run("what code prints is told as it prints it", func(t *testing.T) { a.hears(t, id) })
	t.Run("here-documents arrive as they were sent", func(t *testing.T) { a.sendsDocuments(t, id) })
	t.Run("a refusal is a result with the sentence", func(t *testing.T) {
		is := is.New(t)
		text, _, r := a.call(t, "get_sandbox_by_id", args{"id": "nosuch"})
		is.True(r.IsError)
		is.True(strings.Contains(text, "no such sandbox"))
		for _, tool := range []string{"sandbox", "nosuch"} { // of which one lacks an op
			_, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args{}})
			wire, ok := errors.AsType[*jsonrpc.Error](err)
			is.True(ok)
			is.Equal(wire.Code, int64(jsonrpc.CodeInvalidParams))
		}
	})
	t.Run("cancelling stops the command, with all that it started", func(t *testing.T) { a.cancels(t, id) })
	text, _, _ = a.call(t, "end_sandbox", args{"id": id})
	is.Equal(text, "null")
	_, _, r := a.call(t, "get_sandbox_by_id", args{"id": id})
	is.True(r.IsError)
}

// starts calls a tool that wants to be heard, and returns what waits for its
// result.
func (a *agent) starts(ctx context.Context, tool string, in args) func() (*mcp.CallToolResult, error) {
	type result struct {
		*mcp.CallToolResult
		error
	}
	done := make(chan result, 1)
	go func() {
		params := &mcp.CallToolParams{Name: tool, Arguments: in}
		params.SetProgressToken("t")
		r, err := a.CallTool(ctx, params)
		done <- result{r, err}
	}()
	return func() (*mcp.CallToolResult, error) {
		r := <-done
		return r.CallToolResult, r.error
	}
}

// hears has code wait for a file, which is written when it has been heard.
func (a *agent) hears(t *testing.T, id string) {
	is := is.New(t)
	wait := a.starts(t.Context(), "run_code", args{
		"lang": "bash", "session_id": id, "code": "echo begun; until [ -e go ]; do read -t 0.05 x <> <(:); done; echo done",
	})
	is.Equal(<-a.progress, "begun\n")
	a.call(t, "write_file", args{"id": id, "path": "go", "content": ""})
	r, err := wait()
	is.NoErr(err)
	is.True(strings.HasPrefix(r.Content[0].(*mcp.TextContent).Text, "begun\ndone\n"))
	is.Equal(<-a.progress, "done\n")
}

func (a *agent) cancels(t *testing.T, id string) {
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	wait := a.starts(ctx, "exec_sandbox", args{"id": id, "command": "echo begun; setsid sleep 1000 & sleep 1000"})
	is.Equal(<-a.progress, "begun\n")
	cancel()
	_, err := wait()
	is.True(err != nil)
	const await = `for i in $(seq 100); do pgrep -x sleep >/dev/null || exit 0; read -t 0.1 x <> <(:); done; exit 1`
	_, ran, _ := a.call(t, "exec_sandbox", args{"id": id, "argv": []string{"bash", "-c", await}})
	is.Equal(ran["exitCode"], float64(0)) // or the command goes on
}

// sendsDocuments has a shell read the lines that follow, each of which it has
// to get as it was.
func (a *agent) sendsDocuments(t *testing.T, id string) {
	for name, c := range map[string]struct{ code, want string }{
		"quoted":                   {"cat <<'EOF'\n  $HOME `x` \\n \"'\nEOF\n", "  $HOME `x` \\n \"'\n"},
		"unquoted":                 {"x=1\ncat <<EOF\n$x $((x+1))\nEOF\n", "1 2\n"},
		"with tabs":                {"cat <<-EOF\n\t\tx\n\tEOF\necho y", "x\ny\n"},
		"one in the other":         {"sh <<'A'\ncat <<'B'\n$0\nB\nA\n", "$0\n"},
		"two":                      {"cat <<A - /dev/fd/3 3<<B\na\nA\nb\nB\n", "a\nb\n"},
		"with CRLF":                {"cat <<'EOF'\na\r\nb\r\nEOF\n", "a\r\nb\r\n"},
		"without the last newline": {"cat <<'EOF'\nx\nEOF", "x\n"},
		"large":                    {"wc -l <<'EOF'\n" + strings.Repeat("ü y\n", 20_000) + "EOF\n", "20000\n"},
	} {
		for tool, in := range map[string]args{
			"run_command": {"id": id, "command": c.code},
			"run_code":    {"session_id": id, "lang": "bash", "code": c.code},
		} {
			if _, ran, _ := a.call(t, tool, in); ran["stdout"] != c.want {
				t.Errorf("%s, %s: got %v, want %q", name, tool, ran, c.want)
			}
		}
	}
	is := is.New(t)
	const text = "a\r\nb\n\r\n\t\u2028 end"
	a.call(t, "write_file", args{"id": id, "path": "..data/a%2Fb ü", "content": text})
	read, _, _ := a.call(t, "read_file", args{"id": id, "path": "..data/a%2Fb ü"})
	is.Equal(read, text)
	listed, _, _ := a.call(t, "list_files", args{"id": id, "path": "..data"})
	is.Equal(listed, "a%2Fb ü (15 bytes)\n")
	_, ran, _ := a.call(t, "run_command", args{"id": id, "command": "head -c 5000000 /dev/zero | tr '\\0' x; printf '\\377\\0' >&2"})
	is.Equal(len(ran["stdout"].(string)), 1<<20+len("\n[truncated at 1MiB]"))
	is.Equal(ran["stderr"], "\uFFFD\x00")
}
