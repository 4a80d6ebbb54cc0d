package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// An agent is a client of /v1/mcp.
type agent struct {
	*mcp.ClientSession
	progress chan *mcp.ProgressNotificationParams
}

type bearer struct{ key string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.key != "" {
		r.Header.Set("Authorization", "Bearer "+b.key)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// newAgent connects by a version of the protocol; "" is the newest, in which
// each request stands for itself.
func newAgent(t testing.TB, url, key, version string) *agent {
	t.Helper()
	a := &agent{progress: make(chan *mcp.ProgressNotificationParams, 1000)}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { a.progress <- r.Params },
	})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url + "/v1/mcp", HTTPClient: &http.Client{Transport: bearer{key}}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	a.ClientSession = session
	return a
}

// call calls a tool and returns its text.
func (a *agent) call(t testing.TB, tool string, args map[string]any) (string, *mcp.CallToolResult) {
	t.Helper()
	r, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			return text.Text, r
		}
	}
	return "", r
}

// field is a field of a result's structured content.
func field(r *mcp.CallToolResult, name string) any {
	m, _ := r.StructuredContent.(map[string]any)
	return m[name]
}

type arguments = map[string]any

func agentServer(t testing.TB, change func(*server.Config)) (*httptest.Server, string) {
	m, keys := newMemory(t), keyring{}
	cfg := server.Config{Sandboxes: m.For, Keys: keys, Interpreter: shell{m: m}}
	if change != nil {
		change(&cfg)
	}
	return start(t, cfg), keys.add("acme", "ada", false)
}

// versions are one in which requests stand for themselves and one of sessions.
var versions = []string{"2026-07-28", "2025-06-18"}

func TestAgentTools(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			is := is.New(t)
			url, key := agentServer(t, nil)
			a := newAgent(t, url.URL, key, version)
			is.Equal(a.ID() != "", version < "2026")
			list, err := a.ListTools(t.Context(), nil)
			is.NoErr(err)
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
				if tool.Name != "sandbox" {
					continue
				}
				op := tool.InputSchema.(map[string]any)["properties"].(map[string]any)["op"].(map[string]any)
				is.Equal(len(op["enum"].([]any)), 17)
			}
			slices.Sort(names)
			is.Equal(strings.Join(names, " "), "describe exec list_files read_file run_code run_command sandbox write_file")

			_, leased := a.call(t, "sandbox", arguments{"op": "lease_sandbox", "input": arguments{}})
			id := field(leased, "id").(string)
			text, ran := a.call(t, "sandbox", arguments{"op": "run_in_sandbox", "input": arguments{"id": id, "argv": []string{"echo", "a  b"}}})
			is.Equal(field(ran, "stdout"), "a  b\n")
			is.True(strings.HasPrefix(text, "{") && strings.Contains(text, `"stdout":"a  b\n"`))
			_, ran = a.call(t, "exec_sandbox", arguments{"id": id, "command": "exit 3"}) // by its name
			is.Equal(field(ran, "exitCode"), float64(3))
			is.True(!ran.IsError) // the program failed, and not the call
			_, ran = a.call(t, "post_sandbox_by_id_exec", arguments{"id": id, "argv": []string{"true"}, "stream": true})
			is.Equal(field(ran, "exitCode"), float64(0))
			a.call(t, "sandbox", arguments{"op": "write_sandbox_file", "id": id, "path": "f", "data": "aGk="}) // beside op
			_, read := a.call(t, "read_sandbox_file", arguments{"id": id, "path": "f"})
			is.Equal(field(read, "data"), "aGk=")
			_, all := a.call(t, "list_sandboxes", nil)
			is.Equal(len(field(all, "sandboxes").([]any)), 1)
			_, code := a.call(t, "exec", arguments{"op": "create_exec", "input": arguments{"lang": "bash", "code": "echo hi", "session_id": id}})
			is.Equal(field(code, "stdout"), "hi\n")
			text, _ = a.call(t, "get_download", arguments{"session_id": id, "fileId": "f"})
			is.Equal(text, "hi")
			_, files := a.call(t, "get_exec_files_by_sid", arguments{"sid": id})
			is.Equal(len(field(files, "result").([]any)), 1)
			text, _ = a.call(t, "end_sandbox", arguments{"id": id})
			is.Equal(text, "null")
			text, gone := a.call(t, "get_sandbox_by_id", arguments{"id": id})
			is.True(gone.IsError)
			is.Equal(field(gone, "status"), float64(404))
			is.True(strings.Contains(text, "no such sandbox") || strings.Contains(text, "ended"))
		})
	}
}

// TestAgentMistakes has wrong calls answered by what is right.
func TestAgentMistakes(t *testing.T) {
	is := is.New(t)
	url, key := agentServer(t, nil)
	a := newAgent(t, url.URL, key, "")
	for _, wrong := range []struct {
		tool string
		args arguments
		want string
	}{
		{"sandbox", arguments{"op": "nosuch"}, "lease_sandbox"},
		{"describe", arguments{"op": "nosuch"}, "lease_sandbox"},
		{"get_sandbox_by_id", arguments{}, "id is needed"},
		{"get_sandbox_by_id", arguments{"id": ".."}, "cannot be"},
		{"get_sandbox_by_id", arguments{"id": "a/../../b"}, "no such sandbox"},
		{"get_sandbox_by_id", arguments{"id": []string{"x"}}, "want a string"},
		{"sandbox", arguments{"op": "run_in_sandbox", "input": "ls"}, "want an object"},
		{"run_in_sandbox", arguments{"id": 7}, "invalid body"},
		{"pause_sandbox", arguments{"id": "nosuch"}, "no such sandbox"},
		{"create_sandbox", arguments{"class": "nosuch"}, "class"},
		{"get_download", arguments{"session_id": "x", "fileId": "../y"}, "cannot be"},
		{"read_file", arguments{}, "path is needed"},
	} {
		text, r := a.call(t, wrong.tool, wrong.args)
		if !r.IsError || !strings.Contains(text, wrong.want) {
			t.Errorf("%s %v: got %v %.200q, want an error with %q", wrong.tool, wrong.args, r.IsError, text, wrong.want)
		}
	}
	for _, name := range []string{"nosuch", "sandbox", "describe"} { // which lack an op
		_, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		is.True(err != nil && (strings.Contains(err.Error(), "op is needed") || strings.Contains(err.Error(), "unknown tool")))
	}
}

// TestAgentsAlone posts messages as a person does, without a session.
func TestAgentsAlone(t *testing.T) {
	url, key := agentServer(t, nil)
	post := func(key, message string, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url.URL+"/v1/mcp", strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	call := func(tool, args string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)
	}
	t.Run("describe is open", func(t *testing.T) {
		is := is.New(t)
		for op, want := range map[string]string{"get_download": "fileId", "list_sandboxes": "project", "get_sandbox": "project"} {
			resp, body := post("", call("describe", `{"op":"`+op+`"}`))
			is.Equal(resp.StatusCode, 200)
			is.Equal(resp.Header.Get("Content-Type"), "application/json")
			var answer struct {
				Result struct{ Content []struct{ Type, Text string } }
			}
			is.NoErr(json.Unmarshal([]byte(body), &answer))
			var d struct {
				Name, Description string
				InputSchema       struct{ Properties map[string]any }
				Annotations       struct{ ReadOnlyHint bool }
			}
			is.NoErr(json.Unmarshal([]byte(answer.Result.Content[0].Text), &d))
			is.True(d.InputSchema.Properties[want] != nil)
			is.True(d.Annotations.ReadOnlyHint)
		}
	})
	t.Run("a list is open", func(t *testing.T) {
		is := is.New(t)
		resp, body := post("", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		is.Equal(resp.StatusCode, 200)
		is.True(strings.Contains(body, `"run_code"`))
	})
	t.Run("a call is not", func(t *testing.T) {
		is := is.New(t)
		for _, wrong := range []string{"", "sk-wrong"} {
			resp, body := post(wrong, call("list_sandboxes", "{}"))
			is.Equal(resp.StatusCode, 401)
			is.Equal(resp.Header.Get("WWW-Authenticate"), `Bearer resource_metadata="`+url.URL+`/.well-known/oauth-protected-resource/v1/mcp"`)
			is.True(strings.Contains(body, "-32001"))
			is.True(strings.Contains(body, `"id":1`))
		}
		resp, err := http.Get(url.URL + "/.well-known/oauth-protected-resource/v1/mcp")
		is.NoErr(err)
		defer resp.Body.Close()
		var about struct{ Resource string }
		is.NoErr(json.NewDecoder(resp.Body).Decode(&about))
		is.Equal(about.Resource, url.URL+"/v1/mcp")
	})
	t.Run("a call with a key", func(t *testing.T) {
		is := is.New(t)
		resp, body := post(key, call("list_sandboxes", "{}"))
		is.Equal(resp.StatusCode, 200)
		is.True(strings.Contains(body, `"sandboxes":[]`))
		resp, body = post(key, call("list_sandboxes", "{}"), "Accept", "application/json, text/event-stream")
		is.Equal(resp.StatusCode, 200)
		is.Equal(resp.Header.Get("Content-Type"), "text/event-stream")
		is.True(strings.Contains(body, "data: {"))
	})
	t.Run("the protocol's own errors", func(t *testing.T) {
		is := is.New(t)
		for message, code := range map[string]string{
			`{"jsonrpc":"2.0","id":1,"method":"nosuch"}`: "-32601",
			`{"jsonrpc"`:                          "-32700",
			`[]`:                                  "-32600",
			call("nosuch", "{}"):                  "-32602",
			call("sandbox", "{}"):                 "-32602",
			call("sandbox", `{"op":["x"]}`):       "-32602",
			call("sandbox", `["list_sandboxes"]`): "-32602",
		} {
			_, body := post(key, message)
			if !strings.Contains(body, code) {
				t.Errorf("%s: got %s, want %s", message, body, code)
			}
		}
		for _, method := range []string{"initialize", "server/discover", "ping"} {
			resp, body := post("", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
			is.Equal(resp.StatusCode, 200)
			if !strings.Contains(body, `"result"`) {
				t.Errorf("%s: %s", method, body)
			}
			is.Equal(resp.Header.Get("Mcp-Session-Id"), "")
		}
		resp, body := post("", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		is.Equal(resp.StatusCode, 202)
		is.Equal(body, "")
	})
	t.Run("an unknown session", func(t *testing.T) {
		is := is.New(t)
		resp, _ := post(key, call("list_sandboxes", "{}"), "Mcp-Session-Id", "of-another-life", "Accept", "text/event-stream")
		is.Equal(resp.StatusCode, 404)
	})
	t.Run("another site", func(t *testing.T) {
		is := is.New(t)
		resp, _ := post(key, call("list_sandboxes", "{}"), "Sec-Fetch-Site", "cross-site")
		is.Equal(resp.StatusCode, 403)
	})
	t.Run("a large message", func(t *testing.T) {
		is := is.New(t)
		resp, _ := post(key, call("describe", `{"op":"`+strings.Repeat("x", 5<<20)+`"}`))
		is.Equal(resp.StatusCode, 413)
	})
}

// TestAgentRecovers has a client of sessions go on after the server has been
// started anew.
func TestAgentRecovers(t *testing.T) {
	is := is.New(t)
	m, keys := newMemory(t), keyring{}
	cfg := server.Config{Sandboxes: m.For, Keys: keys}
	first, err := server.New(cfg)
	is.NoErr(err)
	second, err := server.New(cfg)
	is.NoErr(err)
	var restarted atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if restarted.Load() {
			second.ServeHTTP(w, r)
			return
		}
		first.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	key := keys.add("acme", "ada", false)
	a, alone := newAgent(t, s.URL, key, "2025-06-18"), newAgent(t, s.URL, key, "")
	a.call(t, "list_sandboxes", nil)
	restarted.Store(true)
	_, err = a.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_sandboxes"})
	is.True(errors.Is(err, mcp.ErrSessionMissing)) // which has the client connect anew
	newAgent(t, s.URL, key, "2025-06-18").call(t, "list_sandboxes", nil)
	alone.call(t, "list_sandboxes", nil) // and one without a session does not even notice
	// What the first life had goes with its process, which lives on here.
	r := httptest.NewRequest(http.MethodDelete, "/v1/mcp", nil)
	r.Header.Set("Mcp-Session-Id", a.ID())
	r.Header.Set("Authorization", "Bearer "+key)
	first.ServeHTTP(httptest.NewRecorder(), r)
}

// TestAgentProgress follows a command, and stops it.
func TestAgentProgress(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			is := is.New(t)
			m, keys, ended := newMemory(t), keyring{}, make(chan bool, 1)
			m.Programs = map[string]sandboxtest.Program{"hang": func(ctx context.Context, p *sandboxtest.Proc) int {
				io.WriteString(p.Stdout, "begun\n")
				<-ctx.Done()
				ended <- true
				return 1
			}}
			s := start(t, server.Config{Sandboxes: m.For, Keys: keys})
			a := newAgent(t, s.URL, keys.add("acme", "ada", false), version)
			_, leased := a.call(t, "lease_sandbox", nil)
			id := field(leased, "id").(string)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				params := &mcp.CallToolParams{Name: "run_in_sandbox", Arguments: arguments{"id": id, "argv": []string{"hang"}}}
				params.SetProgressToken("t")
				_, err := a.CallTool(ctx, params)
				failed <- err
			}()
			p := <-a.progress
			is.Equal(p.Message, "begun\n")
			is.Equal(p.Progress, float64(6))
			cancel()
			is.True(<-failed != nil)
			<-ended // or the test does not end either
		})
	}
}

// TestAgentPlainTools has an agent that knows nothing get along.
func TestAgentPlainTools(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			is := is.New(t)
			url, key := agentServer(t, nil)
			a := newAgent(t, url.URL, key, version)
			text, wrote := a.call(t, "write_file", arguments{"path": "d/f.txt", "content": "grüße"})
			is.True(strings.HasPrefix(text, "wrote 7 bytes to /mnt/data/d/f.txt\n[sandbox "))
			is.Equal(field(wrote, "bytes"), float64(7))
			_, all := a.call(t, "list_sandboxes", nil)
			id := field(all, "sandboxes").([]any)[0].(map[string]any)["id"].(string)
			own := func(args arguments) arguments {
				if a.ID() == "" { // nobody remembers
					args["id"], args["session_id"] = id, id
				}
				return args
			}
			text, _ = a.call(t, "read_file", own(arguments{"path": "d/f.txt"}))
			is.Equal(text, "grüße")
			text, _ = a.call(t, "list_files", own(arguments{"path": "d"}))
			is.Equal(text, "f.txt (7 bytes)\n")
			text, ran := a.call(t, "run_command", own(arguments{"command": "cat d/f.txt; echo bad >&2; exit 3"}))
			is.Equal(text, "grüße\n[stderr]\nbad\n[exit code 3]")
			is.True(!ran.IsError)
			is.Equal(field(ran, "id"), id)
			text, ran = a.call(t, "run_code", own(arguments{"lang": "bash", "code": "cat d/f.txt"}))
			is.True(strings.HasPrefix(text, "grüße\n[files: d/f.txt]"))
			is.Equal(field(ran, "session_id"), id)
			a.call(t, "end_sandbox", arguments{"id": id})
			text, _ = a.call(t, "run_command", arguments{"command": "true"})
			if a.ID() != "" {
				is.True(strings.Contains(text, "the one before has ended"))
			}
		})
	}
}

// TestAgentImages has a run's images come along.
func TestAgentImages(t *testing.T) {
	is := is.New(t)
	url, key := agentServer(t, nil)
	a := newAgent(t, url.URL, key, "")
	var picture bytes.Buffer
	is.NoErr(png.Encode(&picture, image.NewGray(image.Rect(0, 0, 4, 4))))
	_, leased := a.call(t, "lease_sandbox", nil)
	id := field(leased, "id").(string)
	a.call(t, "write_sandbox_file", arguments{"id": id, "path": "plot_1.png", "data": picture.Bytes()})
	a.call(t, "write_sandbox_file", arguments{"id": id, "path": "no.png", "data": []byte("<script>")})
	for tool, args := range map[string]arguments{
		"run_code":  {"lang": "bash", "code": "true", "session_id": id},
		"post_exec": {"lang": "bash", "code": "true", "session_id": id},
		"read_file": {"id": id, "path": "plot_1.png"},
	} {
		_, r := a.call(t, tool, args)
		var images []*mcp.ImageContent
		for _, c := range r.Content {
			if i, ok := c.(*mcp.ImageContent); ok {
				images = append(images, i)
			}
		}
		is.Equal(len(images), 1) // what only has the name of one is none
		is.Equal(images[0].MIMEType, "image/png")
		is.Equal(images[0].Data, picture.Bytes())
	}
}

// TestAgentOwners has agents not see each other's sandboxes, and money be
// asked for.
func TestAgentOwners(t *testing.T) {
	is := is.New(t)
	m, keys := newMemory(t), keyring{}
	s := start(t, server.Config{
		Sandboxes: m.For, Keys: keys, Interpreter: shell{m: m}, ServiceKey: "the-service-key",
		Ledger: &purse{}, Fees: server.Fees{Run: 1, Lease: map[string]int64{"": 1}, Prepaid: true}, Agents: server.Agents{Bare: true},
	})
	a := newAgent(t, s.URL, keys.add("acme", "ada", false), "")
	list, err := a.ListTools(t.Context(), nil)
	is.NoErr(err)
	is.Equal(len(list.Tools), 3)
	_, r := a.call(t, "lease_sandbox", nil)
	is.True(r.IsError)
	is.Equal(field(r, "status"), float64(402))
	_, r = a.call(t, "create_exec", arguments{"lang": "bash", "code": "true"})
	is.Equal(field(r, "status"), float64(402))
	sb, err := m.For(sandbox.Owner{Org: "rival"}).Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	_, r = a.call(t, "exec_sandbox", arguments{"id": sb.ID(), "argv": []string{"true"}})
	is.Equal(field(r, "status"), float64(404))
}

// BenchmarkAgentCall is a tool's call beside the request that it becomes, by
// one caller and by several at a time.
func BenchmarkAgentCall(b *testing.B) {
	url, key := agentServer(b, func(c *server.Config) { c.Limits.Rate = 1e6 })
	_, leased := newAgent(b, url.URL, key, "").call(b, "lease_sandbox", nil)
	id := field(leased, "id").(string)
	client := &http.Client{Transport: bearer{key}}
	post := func(b *testing.B, path, body string) {
		resp, err := client.Post(url.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
	}
	message := toolCall(1, "exec_sandbox", arguments{"id": id, "argv": []string{"true"}})
	for name, call := range map[string]func(*testing.B){
		"rest": func(b *testing.B) { post(b, "/v1/sandbox/"+id+"/exec", `{"argv":["true"]}`) },
		"tool": func(b *testing.B) { post(b, "/v1/mcp", message) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				call(b)
			}
		})
		b.Run(name+" by 16", func(b *testing.B) {
			b.SetParallelism(8) // of two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(b)
				}
			})
		})
	}
	for _, version := range versions {
		a := newAgent(b, url.URL, key, version)
		b.Run("client "+version, func(b *testing.B) {
			for b.Loop() {
				a.call(b, "exec_sandbox", arguments{"id": id, "argv": []string{"true"}})
			}
		})
	}
}
