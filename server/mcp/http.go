package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hanzoai/sandbox/internal/problem"
)

const (
	// sessionIdle is how long a session lives that nobody uses, and
	// maxSessions how many there are; who comes later does without.
	sessionIdle = 30 * time.Minute
	maxSessions = 1024

	sessionHeader  = "Mcp-Session-Id"
	protocolHeader = "Mcp-Protocol-Version"

	// requestProtocol is the first version of the protocol in which a request
	// stands for itself.
	requestProtocol = "2026-07-28"
)

// serveHTTP makes the ways in over HTTP. Most messages stand for themselves;
// callers of older versions of the protocol begin a session. One that takes no
// event stream gets its answer as a value.
func (s *Server) serveHTTP() {
	get := func(*http.Request) *sdk.Server { return s.sdk }
	options := sdk.StreamableHTTPOptions{
		Logger: s.log, SessionTimeout: sessionIdle, MaxRequestBodyBytes: s.cfg.MaxBody,
		PropagateRequestCancellation: true,
		// A page whose name was pointed at this machine has no credential,
		// and a proxy on this machine asks under another name.
		DisableLocalhostProtection: true,
	}
	s.sessions = sdk.NewStreamableHTTPHandler(get, &options)
	options.Stateless = true
	streams, values := options, options
	values.JSONResponse = true
	s.streams = sdk.NewStreamableHTTPHandler(get, &streams)
	s.values = sdk.NewStreamableHTTPHandler(get, &values)
}

// newSession names a session. "" is none.
func (s *Server) newSession() string {
	n := 0
	for range s.sdk.Sessions() {
		if n++; n > maxSessions {
			return ""
		}
	}
	return newSessionID()
}

// A message is what is looked at of one before anything else.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct{ Name string }
}

// known are the methods that there are, without those of notifications.
var known = []string{
	"initialize", "ping", "server/discover", "tools/list", "tools/call", "logging/setLevel", "completion/complete",
	"prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list", "resources/subscribe",
	"resources/unsubscribe", "subscriptions/listen",
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
	case http.MethodDelete:
		s.sessions.ServeHTTP(w, r)
		return
	default: // there is nothing that would be told unasked
		w.Header().Set("Allow", "POST, DELETE")
		answerError(w, http.StatusMethodNotAllowed, nil, jsonrpc.CodeInvalidRequest, "this address takes POST and DELETE")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	if err != nil {
		status, text := http.StatusBadRequest, "the message ends in the middle"
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status, text = http.StatusRequestEntityTooLarge, "the message exceeds "+strconv.FormatInt(s.cfg.MaxBody, 10)+" bytes"
		}
		answerError(w, status, nil, jsonrpc.CodeInvalidRequest, text)
		return
	}
	messages, err := look(body)
	if err != nil {
		answerError(w, http.StatusBadRequest, nil, jsonrpc.CodeParseError, err.Error())
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if m := &messages[0]; m.Method == "server/discover" && len(m.ID) > 0 && r.Header.Get(protocolHeader) < requestProtocol {
		discover(w, m.ID)
		return
	}
	if !s.refused(w, r, messages) {
		s.pass(w, r, messages)
	}
}

// look reads what messages there are: one, or in old versions several.
func look(body []byte) ([]message, error) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		var list []message
		if err := json.Unmarshal(body, &list); err != nil || len(list) == 0 {
			return nil, errors.New("no JSON-RPC messages")
		}
		return list, nil
	}
	list := make([]message, 1)
	if err := json.Unmarshal(body, &list[0]); err != nil {
		return nil, errors.New("no JSON-RPC message: " + err.Error())
	}
	return list, nil
}

// refused answers what needs a credential and has none that is good, and what
// asks for a method that there is not.
func (s *Server) refused(w http.ResponseWriter, r *http.Request, messages []message) bool {
	for i := range messages {
		m := &messages[i]
		if m.Method == "tools/call" && m.Params.Name != describeTool && s.cfg.Admit != nil {
			if err := s.cfg.Admit(r); err != nil {
				s.unauthorized(w, r, m.ID, err)
				return true
			}
		}
		isNew := r.Header.Get(protocolHeader) >= requestProtocol // for which the SDK answers
		if len(m.ID) > 0 && m.Method != "" && !slices.Contains(known, m.Method) && len(messages) == 1 && !isNew {
			answerError(w, http.StatusOK, m.ID, jsonrpc.CodeMethodNotFound, "there is no method of that name")
			return true
		}
	}
	return false
}

// codeUnauthorized is a refusal's, within JSON-RPC.
const codeUnauthorized = -32001

func (s *Server) unauthorized(w http.ResponseWriter, r *http.Request, id json.RawMessage, err error) {
	p, known := problem.Of(err)
	if !known {
		s.log.Error("a credential could not be checked", "error", err)
	}
	if p.Status == http.StatusUnauthorized {
		challenge := "Bearer"
		if s.cfg.Metadata != "" {
			challenge += ` resource_metadata="` + Origin(r) + s.cfg.Metadata + `"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	}
	answerError(w, p.Status, id, codeUnauthorized, p.Detail)
}

// Origin is the server's own address, as the caller of r has it.
func Origin(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	// What has no place in a header's quotes is none of a host's either.
	host := strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '/' {
			return -1
		}
		return c
	}, r.Host)
	return scheme + "://" + host
}

// pass has the SDK answer.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, messages []message) {
	stream := takes(r.Header.Values("Accept"), "text/event-stream")
	r.Header = r.Header.Clone()
	r.Header["Accept"] = []string{"application/json, text/event-stream"}
	begins := len(messages) == 1 && messages[0].Method == "initialize"
	switch {
	case r.Header.Get(sessionHeader) != "":
		s.sessions.ServeHTTP(w, r)
	case begins && stream && (s.cfg.Admit == nil || s.cfg.Admit(r) == nil):
		s.sessions.ServeHTTP(w, r)
	case stream:
		s.streams.ServeHTTP(w, withRequest(r))
	default:
		s.values.ServeHTTP(w, withRequest(r))
	}
}

// takes reports whether a media type is accepted by its name.
func takes(values []string, kind string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			part, _, _ = strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(part), kind) {
				return true
			}
		}
	}
	return false
}

type requestKey struct{}

// withRequest has what is done for a request know when its caller has gone:
// without a session nobody else can have it stopped.
func withRequest(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context()))
}

// withinRequest ends a context with the request that it is for, if that stands
// for itself.
func withinRequest(ctx context.Context) (context.Context, context.CancelFunc) {
	request, ok := ctx.Value(requestKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(request, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
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
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	writeMessage(w, status, id, "error", map[string]any{"code": code, "message": text})
}

func writeMessage(w http.ResponseWriter, status int, id json.RawMessage, kind string, v any) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, kind: v})
	if err != nil {
		status, body = http.StatusBadRequest, nil // of an id that is none
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}
