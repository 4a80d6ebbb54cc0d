package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/server/mcp"
)

// TestPipe has lines that are no messages be answered, and the ones after them
// as well.
func TestPipe(t *testing.T) {
	is := is.New(t)
	tools, err := mcp.New(mcp.Config{API: http.NotFoundHandler(), MaxBody: 10_000})
	is.NoErr(err)
	in, toTools := io.Pipe()
	fromTools, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- tools.Serve(context.WithoutCancel(t.Context()), in, out) }()
	answers := bufio.NewReader(fromTools)
	ask := func(line string) (id any, code int, result bool) {
		t.Helper()
		go io.WriteString(toTools, line+"\n") //nolint:errcheck // what is not read shows below
		text, err := answers.ReadBytes('\n')
		is.NoErr(err)
		var answer struct {
			JSONRPC string
			ID      any
			Error   struct{ Code int }
			Result  json.RawMessage
		}
		is.NoErr(json.Unmarshal(text, &answer))
		is.Equal(answer.JSONRPC, "2.0")
		return answer.ID, answer.Error.Code, answer.Result != nil
	}
	const ping = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	_, _, ok := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	is.True(ok)
	for _, wrong := range []struct {
		line string
		id   any
		code int
	}{
		{`{"jsonrpc"`, nil, -32700},
		{"\x00\xff", nil, -32700},
		{`"x"`, nil, -32600},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, nil, -32600},
		{`{"jsonrpc":"2.0","id":5,"method":"nosuch"}`, float64(5), -32601},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":[]}`, float64(6), -32602},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"describe","arguments":[]}}`, float64(7), -32602},
		{`{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}}`, nil, -32600},
		{`{"jsonrpc":"2.0","id":8,"result":1,"error":2}`, nil, -32600},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<20) + `","method":"ping"}`, nil, -32600},
	} {
		id, code, _ := ask(wrong.line)
		is.Equal(id, wrong.id)
		is.Equal(code, wrong.code)
		id, _, ok := ask("\n  \r\n" + ping) // an empty line is nothing
		is.Equal(id, "p")
		is.True(ok)
	}
	id, _, ok := ask("[" + ping + "]")
	is.Equal(id, "p")
	is.True(ok)
	toTools.Close()
	is.NoErr(<-done)
}

// TestPanic has an API that panics fail the call, and not the program.
func TestPanic(t *testing.T) {
	is := is.New(t)
	var log bytes.Buffer
	tools, err := mcp.New(mcp.Config{
		API:    http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("not for callers") }),
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	is.NoErr(err)
	for _, call := range []string{
		`{"name":"list_sandboxes"}`, `{"name":"sandbox","arguments":{"op":"list_sandboxes"}}`, `{"name":"run_command","arguments":{"command":"ls"}}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+call+`}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		tools.ServeHTTP(w, r)
		is.True(strings.Contains(w.Body.String(), `"isError":true`))
		is.True(strings.Contains(w.Body.String(), "its log says why"))
		is.True(!strings.Contains(w.Body.String(), "not for callers"))
	}
	is.Equal(strings.Count(log.String(), "not for callers"), 3)
}
