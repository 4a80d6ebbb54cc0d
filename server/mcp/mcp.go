package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hanzoai/sandbox/internal/api"
)

// Config says what the tools stand on.
type Config struct {
	// API serves the operations. It is required.
	API http.Handler

	// Admit says whose a request's credential is, or why it is not good, for
	// calls over HTTP. A session is the owner's who began it. Without it all
	// are let through to the API, which asks too.
	Admit func(r *http.Request) (owner string, err error)
	// Metadata is the address, below the server's own, that tells where
	// credentials come from; a refusal names it.
	Metadata string

	// Header has the credential of calls that come over a pipe.
	Header http.Header

	// Bare leaves out the tools that are no operations.
	Bare bool

	// MaxBody bounds a message; 0 is 4 MiB.
	MaxBody int64

	// WriteTime is how long a caller over HTTP may take nothing of what it is
	// told; 0 is 30 seconds.
	WriteTime time.Duration

	// Logger takes what callers are not told. Nil discards it.
	Logger *slog.Logger
}

// A Server serves the tools. It is safe for concurrent use.
type Server struct {
	cfg        Config
	log        *slog.Logger
	operations map[string]*operation // by both names
	sdk        *sdk.Server
	sessions   sessions

	inSessions, streams, values http.Handler
}

var implementation = &sdk.Implementation{Name: "sandbox", Title: "Sandbox", Version: "1"}

const (
	defaultMaxBody   = 4 << 20
	defaultWriteTime = 30 * time.Second
)

// New returns the Server of the operations of this module's document.
func New(cfg Config) (*Server, error) {
	if cfg.API == nil {
		return nil, errors.New("mcp: Config.API is required")
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, defaultMaxBody)
	cfg.WriteTime = cmp.Or(cfg.WriteTime, defaultWriteTime)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, log: cfg.Logger, operations: map[string]*operation{}}
	list, err := read(api.JSON)
	if err != nil {
		return nil, err
	}
	s.sdk = sdk.NewServer(implementation, &sdk.ServerOptions{
		Instructions: instructions(cfg.Bare),
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
		GetSessionID: s.newSession,
	})
	s.addOperations(list)
	if !cfg.Bare {
		s.addPlain()
	}
	s.sdk.AddReceivingMiddleware(s.byName)
	s.serveHTTP()
	return s, nil
}

func instructions(bare bool) string {
	text := "Sandboxes are small computers, apart from everything else and without a network, in which programs run. " +
		"A session of the code interpreter is a sandbox too, with the same id. " +
		"The tools sandbox and exec have the operations; describe tells one's input."
	if bare {
		return text
	}
	return "Use run_code and run_command to run things, and read_file, write_file and list_files for files. " +
		"Without an id they use a sandbox of your own, which keeps its files between calls until its lease ends. " + text
}

// header has the credential of a call.
func (s *Server) header(req *sdk.CallToolRequest) http.Header {
	if req.Extra != nil && req.Extra.Header != nil {
		return req.Extra.Header
	}
	return s.cfg.Header
}

// arguments are the fields of what a tool was called with.
func arguments(raw json.RawMessage) (input, error) {
	in := input{}
	if !isObject(raw) {
		return nil, inputError("want an object")
	}
	if len(raw) == 0 {
		return in, nil
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, inputError("want an object: " + err.Error())
	}
	maps.DeleteFunc(in, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return in, nil
}

// isObject reports whether what may be left out is none or an object.
func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || raw[0] == '{' || string(raw) == "null"
}
