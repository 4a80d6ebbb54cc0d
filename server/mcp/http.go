package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hanzoai/sandbox/internal/problem"
)

const (
	// sessionIdle is how long a session lives that nobody uses, maxSessions
	// how many there are, and ownSessions how many of them are one owner's; who
	// comes later does without.
	sessionIdle = 30 * time.Minute
	maxSessions = 4096
	ownSessions = 1024

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
	s.inSessions = sdk.NewStreamableHTTPHandler(get, &options)
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
	return rand.Text()
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	admitted := sync.OnceValues(func() (string, error) {
		if s.cfg.Admit == nil {
			return "", nil
		}
		return s.cfg.Admit(r)
	})
	answer := s.newAnswering(w, r)
	switch r.Method {
	case http.MethodPost:
	case http.MethodDelete:
		if !s.strange(answer, r, admitted) {
			s.sessions.end(r.Header.Get(sessionHeader))
			s.inSessions.ServeHTTP(answer, r)
		}
		return
	default: // there is nothing that would be told unasked
		w.Header().Set("Allow", "POST, DELETE")
		answerError(answer, http.StatusMethodNotAllowed, nil, jsonrpc.CodeInvalidRequest, "this address takes POST and DELETE")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBody))
	if err != nil {
		status, text := http.StatusBadRequest, "the message ends in the middle"
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			status, text = http.StatusRequestEntityTooLarge, tooLong(s.cfg.MaxBody)
		}
		answerError(answer, status, nil, jsonrpc.CodeInvalidRequest, text)
		return
	}
	messages, bad := look(body)
	if bad != nil {
		answerError(answer, statusOf(r, bad), bad.id, bad.code, bad.text)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if m := &messages[0]; m.Method == "server/discover" && len(m.ID) > 0 && !isNew(r) {
		discover(answer, m.ID)
		return
	}
	if len(messages) == 1 {
		answer.id = messages[0].ID
	}
	if !s.refused(answer, r, messages, admitted) && !s.strange(answer, r, admitted) {
		s.pass(answer, r, messages, admitted)
	}
}

// admit says whose a request is. It asks once.
type admit func() (owner string, err error)

// strange answers who has somebody else's session as if there were none.
func (s *Server) strange(w http.ResponseWriter, r *http.Request, admitted admit) bool {
	id := r.Header.Get(sessionHeader)
	if id == "" {
		return false
	}
	owner, err := admitted()
	if err == nil && s.sessions.isOf(id, owner) {
		return false
	}
	http.Error(w, "session not found", http.StatusNotFound) // as the SDK has it
	return true
}

// isNew reports whether a request stands for itself.
func isNew(r *http.Request) bool { return r.Header.Get(protocolHeader) >= requestProtocol }

// statusOf is what an error of the protocol goes with. What has an id is
// answered, in older versions of the protocol, as any other call is.
func statusOf(r *http.Request, e *badMessage) int {
	if len(e.id) > 0 && !isNew(r) {
		return http.StatusOK
	}
	return http.StatusBadRequest
}

// refused answers what needs a credential and has none that is good, and what
// asks for a method that there is not.
func (s *Server) refused(w http.ResponseWriter, r *http.Request, messages []message, admitted admit) bool {
	for i := range messages {
		m := &messages[i]
		if m.Method == "tools/call" && m.Tool != describeTool {
			if _, err := admitted(); err != nil {
				s.unauthorized(w, r, m.ID, err)
				return true
			}
		}
		// Of a newer version the SDK answers.
		if len(m.ID) > 0 && m.Method != "" && !slices.Contains(known, m.Method) && !isNew(r) {
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
func (s *Server) pass(w http.ResponseWriter, r *http.Request, messages []message, admitted admit) {
	stream := takes(r.Header.Values("Accept"), "text/event-stream")
	r.Header = r.Header.Clone()
	r.Header["Accept"] = []string{"application/json, text/event-stream"}
	if stream && r.Header.Get(sessionHeader) == "" && len(messages) == 1 && messages[0].Method == "initialize" {
		if owner, err := admitted(); err == nil && s.sessions.count(owner) < ownSessions {
			s.inSessions.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ownerKey{}, owner)))
			return
		}
	}
	switch {
	case r.Header.Get(sessionHeader) != "":
		s.inSessions.ServeHTTP(w, r)
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
