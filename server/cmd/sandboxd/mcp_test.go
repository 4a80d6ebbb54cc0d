package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type keyed struct{ key string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// TestAgents has one client do the same over both transports, with the engine
// behind them.
func TestAgents(t *testing.T) {
	root := t.TempDir()
	for _, transport := range []string{"stdio", "http", "http session"} {
		t.Run(transport, func(t *testing.T) {
			var by mcp.Transport
			options := &mcp.ClientSessionOptions{}
			if transport == "stdio" {
				by = &mcp.CommandTransport{Command: daemonCommand(t, "", nil, "mcp")}
			} else {
				p := startDaemon(t, root, "SANDBOXD_KEY=sk-a-key-for-this-test")
				t.Cleanup(func() { p.stop(t) })
				client := &http.Client{Transport: keyed{"sk-a-key-for-this-test"}}
				by = &mcp.StreamableClientTransport{Endpoint: p.url + "/v1/mcp", HTTPClient: client}
			}
			if transport == "http session" {
				options.ProtocolVersion = "2025-06-18"
			}
			agentScript(t, by, options)
		})
	}
}

func agentScript(t *testing.T, by mcp.Transport, options *mcp.ClientSessionOptions) {
	is := is.New(t)
	progress := make(chan string, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	})
	session, err := client.Connect(t.Context(), by, options)
	is.NoErr(err)
	defer session.Close()
	call := func(tool string, args map[string]any) (string, map[string]any) {
		t.Helper()
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		text := r.Content[0].(*mcp.TextContent).Text
		if r.IsError {
			t.Fatalf("%s: %s", tool, text)
		}
		fields, _ := r.StructuredContent.(map[string]any)
		return text, fields
	}
	_, leased := call("lease_sandbox", nil)
	id := leased["id"].(string)
	text, _ := call("run_command", map[string]any{"id": id, "command": "cat | wc -c; echo $0", "stdin": "four"})
	is.Equal(text, "4\nsh\n")
	text, ran := call("run_code", map[string]any{"lang": "bash", "code": "echo made > out.txt; echo done", "session_id": id})
	is.True(strings.Contains(text, "[files: out.txt]"))
	is.Equal(ran["session_id"], id)
	text, _ = call("read_file", map[string]any{"id": id, "path": "out.txt"})
	is.Equal(text, "made\n")

	// What it says is told as it says it, and when the caller wants no more it
	// is ended with all that it started.
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "exec_sandbox", Arguments: map[string]any{"id": id, "command": "echo begun; setsid sleep 1000 & sleep 1000"}}
		params.SetProgressToken("t")
		_, err := session.CallTool(ctx, params)
		failed <- err
	}()
	is.Equal(<-progress, "begun\n")
	cancel()
	is.True(<-failed != nil)
	await := `for i in $(seq 100); do pgrep -x sleep >/dev/null || exit 0; read -t 0.1 x <> <(:); done; exit 1`
	_, ran = call("exec_sandbox", map[string]any{"id": id, "argv": []string{"bash", "-c", await}})
	if ran["exitCode"] != float64(0) {
		t.Errorf("the command goes on: %v", ran)
	}
	text, _ = call("end_sandbox", map[string]any{"id": id})
	is.Equal(text, "null")
}
