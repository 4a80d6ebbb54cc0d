package mcp

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// An answering writes the answer to a message. A caller who takes nothing of
// it for too long has gone, and what refuses is an error of JSON-RPC, as which
// the SDK does not write all.
type answering struct {
	http.ResponseWriter
	control *http.ResponseController
	patient time.Duration
	id      json.RawMessage // of the message, if there is one

	session bool // asks by one
	plain   int  // the status of a refusal in plain text
}

func (s *Server) newAnswering(w http.ResponseWriter, r *http.Request) *answering {
	return &answering{
		ResponseWriter: w, control: http.NewResponseController(w), patient: s.cfg.WriteTime,
		session: r.Header.Get(sessionHeader) != "",
	}
}

// Unwrap has whoever flushes find who can.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answering) WriteHeader(status int) {
	isText := strings.HasPrefix(a.Header().Get("Content-Type"), "text/plain")
	// Clients know a session that is not there by the status, if there is no
	// JSON-RPC with it.
	if status < http.StatusBadRequest || !isText || status == http.StatusNotFound && a.session {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.plain = status
}

func (a *answering) Write(p []byte) (int, error) {
	a.control.SetWriteDeadline(time.Now().Add(a.patient)) //nolint:errcheck // without one it takes longer
	if a.plain == 0 {
		return a.ResponseWriter.Write(p)
	}
	status := a.plain
	a.plain = 0
	answerError(a, status, a.id, jsonrpc.CodeInvalidRequest, strings.TrimSpace(string(p)))
	return len(p), nil
}

// FlushError has what has been written go out. A pause after it is no fault of
// the caller's.
func (a *answering) FlushError() error {
	a.control.SetWriteDeadline(time.Now().Add(a.patient)) //nolint:errcheck // as in Write
	defer a.control.SetWriteDeadline(time.Time{})         //nolint:errcheck // as in Write
	return a.control.Flush()
}

// discover answers who asks what there is without saying by which version. The
// SDK answers the others.
func discover(w http.ResponseWriter, id json.RawMessage) {
	writeMessage(w, http.StatusOK, id, "result", map[string]any{
		"protocolVersion": requestProtocol, "supportedVersions": sdk.SupportedProtocolVersions(),
		"capabilities": map[string]any{"tools": map[string]any{"listChanged": false}},
		"serverInfo":   implementation,
	})
}

// answerError answers with an error of JSON-RPC.
func answerError(w http.ResponseWriter, status int, id json.RawMessage, code int64, text string) {
	writeMessage(w, status, id, "error", (&badMessage{id, code, text}).wire())
}

func writeMessage(w http.ResponseWriter, status int, id json.RawMessage, kind string, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(encode(id, kind, v)) //nolint:errcheck // the caller has gone
}

// encode makes an answer, of an id that has been looked at.
func encode(id json.RawMessage, kind string, v any) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, kind: v})
	if err != nil {
		panic(err) // of what has been JSON
	}
	return body
}
