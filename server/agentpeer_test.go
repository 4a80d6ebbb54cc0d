package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/server"
)

// A poster posts messages as they stand.
type poster struct {
	url, key string
}

func (p poster) do(ctx context.Context, method, message string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.url+"/v1/mcp", strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if p.key != "" {
		r.Header.Set("Authorization", "Bearer "+p.key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(r)
}

func (p poster) post(t testing.TB, message string, header ...string) (*http.Response, string) {
	t.Helper()
	resp, err := p.do(t.Context(), http.MethodPost, message, header...)
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

func toolCall(id any, tool string, args arguments) string {
	m := arguments{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": arguments{
		"name": tool, "arguments": args, "_meta": arguments{"progressToken": "t"},
	}}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestAgentMessages has what is no message, or a wrong one, be an error of
// JSON-RPC, with the message's id if it has one.
func TestAgentMessages(t *testing.T) {
	s, key := agentServer(t, nil)
	p := poster{s.URL, key}
	for _, c := range []struct {
		message string
		status  int
		id      string
		code    int
	}{
		{``, 400, `null`, -32700},
		{`{"jsonrpc"`, 400, `null`, -32700},
		{"\xff", 400, `null`, -32700},
		{`"x"`, 400, `null`, -32600},
		{`null`, 400, `null`, -32600},
		{`[]`, 400, `null`, -32600},
		{`[1]`, 400, `null`, -32600},
		{`{}`, 400, `null`, -32600},
		{`{"id":1,"method":"ping"}`, 200, `1`, -32600},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, 200, `1`, -32600},
		{`{"jsonrpc":"2.0","id":1}`, 200, `1`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":5}`, 200, `1`, -32600},
		{`{"jsonrpc":"2.0","id":"a","Method":"ping"}`, 200, `"a"`, -32600}, // names are by their very letters
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, `null`, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, 400, `null`, -32600},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, `null`, -32600},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, 400, `null`, -32600},
		{`{"jsonrpc":"2.0","id":` + strings.Repeat("9", 1000) + `,"method":"ping"}`, 400, `null`, -32600},
		{`{"jsonrpc":"2.0","method":"ping"}`, 400, `null`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":"nosuch"}`, 200, `1`, -32601},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"nosuch"}]`, 200, `2`, -32601},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 200, `1`, -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}`, 200, `1`, -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`, 200, `1`, -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":[1]}}`, 200, `1`, -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sandbox","arguments":"x"}}`, 200, `1`, -32602},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sandboxes","arguments":7}}`, 200, `1`, -32602},
	} {
		resp, body := p.post(t, c.message)
		var answer struct {
			JSONRPC string
			ID      json.RawMessage
			Error   struct {
				Code    int
				Message string
			}
		}
		err := json.Unmarshal([]byte(body), &answer)
		if err != nil || resp.StatusCode != c.status || string(answer.ID) != c.id || answer.Error.Code != c.code || answer.Error.Message == "" ||
			answer.JSONRPC != "2.0" || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%.100s: got %d %s, want %d, id %s, code %d", c.message, resp.StatusCode, body, c.status, c.id, c.code)
		}
	}
	t.Run("what is not for agents", func(t *testing.T) {
		is := is.New(t)
		resp, body := p.post(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Protocol-Version", "1999-01-01")
		is.Equal(resp.StatusCode, 400)
		is.True(strings.Contains(body, `"code":-32600`))
		is.True(strings.Contains(body, `"id":1`))
	})
	t.Run("ids come back as they were", func(t *testing.T) {
		is := is.New(t)
		for _, id := range []string{`0`, `-1`, `9007199254740992`, `""`, `"ü\u0000"`, `"` + strings.Repeat("x", 1<<20) + `"`} {
			_, body := p.post(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
			var answer struct{ ID any }
			var want any
			is.NoErr(json.Unmarshal([]byte(body), &answer))
			is.NoErr(json.Unmarshal([]byte(id), &want))
			is.Equal(answer.ID, want)
		}
	})
}

// TestAgentCredential has nobody call a tool by two names for one thing, of
// which the one that is looked at is harmless.
func TestAgentCredential(t *testing.T) {
	is := is.New(t)
	s, _ := agentServer(t, nil)
	p := poster{url: s.URL}
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"ping","params":{"name":"list_sandboxes"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"list_sandboxes"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sandboxes","Name":"describe"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sandboxes"},"PARAMS":{"name":"describe"}}`,
		`[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sandboxes"}}]`,
	} {
		resp, body := p.post(t, message)
		is.Equal(resp.StatusCode, 401)
		is.True(strings.Contains(body, `"id":1`))
	}
}

// TestAgentBatch has several messages come at once, as an old version of the
// protocol has it, and not so many that their answers are a flood.
func TestAgentBatch(t *testing.T) {
	is := is.New(t)
	s, key := agentServer(t, nil)
	batch := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = toolCall(i, "describe", arguments{"op": "list_sandboxes"})
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	resp, body := poster{s.URL, key}.post(t, batch(32))
	is.Equal(resp.StatusCode, 200)
	var answers []struct {
		ID     int
		Result struct{ Content []any }
	}
	is.NoErr(json.Unmarshal([]byte(body), &answers))
	ids := map[int]bool{}
	for _, a := range answers {
		ids[a.ID] = len(a.Result.Content) == 1
	}
	is.Equal(len(ids), 32)
	resp, body = poster{url: s.URL}.post(t, batch(33))
	is.Equal(resp.StatusCode, 400)
	is.True(strings.Contains(body, "at most 32"))
}

// endless are programs that end when they are ended alone.
func endless(begun, ended chan<- bool) map[string]sandboxtest.Program {
	return map[string]sandboxtest.Program{
		"hang": func(ctx context.Context, p *sandboxtest.Proc) int {
			io.WriteString(p.Stdout, "begun\n")
			begun <- true
			<-ctx.Done()
			ended <- true
			return 1
		},
		"flood": func(ctx context.Context, p *sandboxtest.Proc) int {
			for line := []byte(strings.Repeat("x", 4095) + "\n"); ctx.Err() == nil; {
				if _, err := p.Stdout.Write(line); err != nil {
					break
				}
			}
			ended <- true
			return 1
		},
	}
}

// programServer is a server with a sandbox in which programs run, and what
// tells that one of them runs and has ended.
func programServer(t *testing.T) (p poster, id string, begun, ended chan bool) {
	m, keys := newMemory(t), keyring{}
	begun, ended = make(chan bool, 10), make(chan bool, 10)
	m.Programs = endless(begun, ended)
	s := start(t, server.Config{Sandboxes: m.For, Keys: keys})
	p = poster{s.URL, keys.add("acme", "ada", false)}
	_, leased := newAgent(t, p.url, p.key, "").call(t, "lease_sandbox", nil)
	return p, field(leased, "id").(string), begun, ended
}

// TestAgentGone has a caller without a session go away in the middle, which
// nobody but the server can then notice.
func TestAgentGone(t *testing.T) {
	for _, accept := range []string{"application/json", "application/json, text/event-stream"} {
		t.Run(accept, func(t *testing.T) {
			is := is.New(t)
			p, id, begun, ended := programServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			r := make(chan error, 1)
			go func() {
				resp, err := p.do(ctx, http.MethodPost, toolCall(1, "run_in_sandbox", arguments{"id": id, "argv": []string{"hang"}}), "Accept", accept)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				r <- err
			}()
			<-begun
			cancel()
			is.True(errors.Is(<-r, context.Canceled))
			<-ended // or the test does not end either
		})
	}
}

// begin begins a session, which is "" if there is no room for one. It ends
// with the test.
func (p poster) begin(t testing.TB) (session string) {
	t.Helper()
	resp, _ := p.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		"Accept", "application/json, text/event-stream")
	session = resp.Header.Get("Mcp-Session-Id")
	if session == "" {
		return ""
	}
	t.Cleanup(func() {
		if resp, err := p.do(context.Background(), http.MethodDelete, "", "Mcp-Session-Id", session); err == nil {
			resp.Body.Close()
		}
	})
	p.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", session)
	return session
}

// TestAgentSessionGoesOn has a session's command outlive the connection that
// it was asked for by, and end with a word or with the session.
func TestAgentSessionGoesOn(t *testing.T) {
	for _, end := range []string{"by a word", "with the session"} {
		t.Run(end, func(t *testing.T) {
			is := is.New(t)
			p, id, _, ended := programServer(t)
			session := p.begin(t)
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := p.do(ctx, http.MethodPost, toolCall(7, "run_in_sandbox", arguments{"id": id, "argv": []string{"hang"}}),
				"Mcp-Session-Id", session, "Accept", "application/json, text/event-stream")
			is.NoErr(err)
			b := make([]byte, 1)
			_, err = io.ReadFull(resp.Body, b) // of its progress
			is.NoErr(err)
			cancel()
			resp.Body.Close()
			got, _ := p.post(t, `{"jsonrpc":"2.0","id":8,"method":"ping"}`, "Mcp-Session-Id", session)
			is.Equal(got.StatusCode, 200)
			is.Equal(len(ended), 0)
			if end == "by a word" {
				got, _ = p.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, "Mcp-Session-Id", session)
				is.Equal(got.StatusCode, 202)
				<-ended
			}
			got, err = p.do(t.Context(), http.MethodDelete, "", "Mcp-Session-Id", session)
			is.NoErr(err)
			got.Body.Close()
			is.Equal(got.StatusCode, 204)
			if end == "with the session" {
				<-ended
			}
			got, _ = p.post(t, `{"jsonrpc":"2.0","id":9,"method":"ping"}`, "Mcp-Session-Id", session)
			is.Equal(got.StatusCode, 404)
		})
	}
}

// TestAgentHangs has a caller take nothing of what it is told.
func TestAgentHangs(t *testing.T) {
	is := is.New(t)
	m, keys, ended := newMemory(t), keyring{}, make(chan bool, 1)
	m.Programs = endless(nil, ended)
	h, err := server.New(server.Config{Sandboxes: m.For, Keys: keys, Limits: server.Limits{BodyTime: 300 * time.Millisecond}})
	is.NoErr(err)
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		c.(*net.TCPConn).SetWriteBuffer(4096) // which is full soon
		return ctx
	}
	s.Start()
	t.Cleanup(s.Close)
	key := keys.add("acme", "ada", false)
	_, leased := newAgent(t, s.URL, key, "").call(t, "lease_sandbox", nil)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	is.NoErr(err)
	defer conn.Close()
	is.NoErr(conn.(*net.TCPConn).SetReadBuffer(4096))
	message := toolCall(1, "run_in_sandbox", arguments{"id": field(leased, "id"), "argv": []string{"flood"}})
	fmt.Fprintf(conn, "POST /v1/mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", key, len(message), message)
	<-ended // or the test does not end either
}

// TestAgentSessions has many sessions at a time, each with its own place, and
// nobody in another's.
func TestAgentSessions(t *testing.T) {
	is := is.New(t)
	m, keys := newMemory(t), keyring{}
	s := start(t, server.Config{Sandboxes: m.For, Keys: keys})
	key := keys.add("acme", "ada", false)
	p := poster{s.URL, key}
	const n = 1000
	ids := make([]string, n)
	var wg sync.WaitGroup
	for worker := range 20 {
		wg.Go(func() {
			for i := worker; i < n; i += 20 {
				ids[i] = p.begin(t)
			}
		})
	}
	wg.Wait()
	distinct := map[string]bool{}
	for _, id := range ids {
		distinct[id] = true
	}
	is.Equal(len(distinct), n)
	for worker := range 20 {
		wg.Go(func() {
			for i := worker; i < n; i += 20 {
				resp, _ := p.post(t, toolCall(1, "describe", arguments{"op": "list_sandboxes"}), "Mcp-Session-Id", ids[i])
				if resp.StatusCode != http.StatusOK {
					t.Errorf("a session answers %d", resp.StatusCode)
				}
				got, err := p.do(t.Context(), http.MethodDelete, "", "Mcp-Session-Id", ids[i])
				if err != nil || got.StatusCode != http.StatusNoContent {
					t.Errorf("a session does not end: %v %v", got, err)
					continue
				}
				got.Body.Close()
			}
		})
	}
	wg.Wait()
	for _, id := range []string{ids[0], ids[n-1]} {
		resp, _ := p.post(t, `{"jsonrpc":"2.0","id":9,"method":"ping"}`, "Mcp-Session-Id", id)
		is.Equal(resp.StatusCode, 404)
	}
	// A client that finds no room is served all the same.
	var last string
	for i := range 1100 {
		if last = p.begin(t); last == "" {
			is.True(i >= n)
			break
		}
	}
	is.Equal(last, "")
	is.True(poster{s.URL, keys.add("acme", "bob", false)}.begin(t) != "") // which takes nobody else's
	a := newAgent(t, s.URL, key, "2025-06-18")
	is.Equal(a.ID(), "")
	a.call(t, "list_sandboxes", nil)
}

// TestAgentSessionOwner has nobody use another's session, not even to end it.
func TestAgentSessionOwner(t *testing.T) {
	is := is.New(t)
	m, keys := newMemory(t), keyring{}
	s := start(t, server.Config{Sandboxes: m.For, Keys: keys})
	owner := poster{s.URL, keys.add("acme", "ada", false)}
	session := owner.begin(t)
	for _, other := range []poster{{s.URL, ""}, {s.URL, "sk-wrong"}, {s.URL, keys.add("acme", "bob", false)}, {s.URL, keys.add("rival", "ada", false)}} {
		for _, message := range []string{
			`{"jsonrpc":"2.0","id":9,"method":"ping"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
		} {
			resp, body := other.post(t, message, "Mcp-Session-Id", session)
			is.Equal(resp.StatusCode, 404)
			unknown, none := other.post(t, message, "Mcp-Session-Id", "nosuch")
			is.Equal(unknown.StatusCode, 404)
			is.Equal(body, none)
		}
		resp, err := other.do(t.Context(), http.MethodDelete, "", "Mcp-Session-Id", session)
		is.NoErr(err)
		resp.Body.Close()
		is.Equal(resp.StatusCode, 404)
	}
	resp, _ := poster{s.URL, keys.add("acme", "ada", false)}.post(t, `{"jsonrpc":"2.0","id":9,"method":"ping"}`, "Mcp-Session-Id", session)
	is.Equal(resp.StatusCode, 200) // by another key of the same owner's
}

// TestAgentPlace has calls at a time, of which none names a sandbox, work in
// the same one.
func TestAgentPlace(t *testing.T) {
	is := is.New(t)
	s, key := agentServer(t, nil)
	a := newAgent(t, s.URL, key, "2025-06-18")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			tool, args := "run_command", arguments{"command": "true"}
			if i%2 == 0 {
				tool, args = "run_code", arguments{"lang": "bash", "code": "true"}
			}
			if _, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, all := a.call(t, "list_sandboxes", nil)
	is.Equal(len(field(all, "sandboxes").([]any)), 1)
}

// TestAgentResultType has results of the newest version of the protocol say
// that they are whole, by which clients know them.
func TestAgentResultType(t *testing.T) {
	is := is.New(t)
	s, key := agentServer(t, nil)
	for tool, args := range map[string]string{
		"list_sandboxes": `{}`, "get_sandbox": `{}`, "sandbox": `{"op":"list_sandboxes"}`, "describe": `{"op":"list_sandboxes"}`,
		"run_command": `{"command":"true"}`, "get_sandbox_by_id": `{"id":"nosuch"}`,
	} {
		resp, body := poster{s.URL, key}.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+args+`,"_meta":{
			"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},
			"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
		is.Equal(resp.StatusCode, 200)
		is.True(strings.Contains(body, `"resultType":"complete"`))
	}
}
