package server

import (
	"log/slog"
	"net/http"
	"net/http/httputil"

	"github.com/hanzoai/sandbox/internal/api"
)

// New returns the handler of all operations. It serves until the process
// ends; what it holds is memory alone.
func New(cfg Config) (_ http.Handler, err error) {
	if err = cfg.check(); err != nil {
		return nil, err
	}
	cfg.fill()
	s := &server{
		cfg: cfg, log: cfg.Logger,
		admission: newAdmission(&cfg),
		gate:      &gate{cfg.Ledger, cfg.Fees, cfg.Limits.RunTime + cfg.Limits.QueueTime},
		rates:     newRates(cfg.Limits),
		slots:     newSlots(cfg.Limits),
		shells:    newSlots(cfg.Limits),
		runs:      newRuns(),
		uploads:   newUploads(),
		tickets:   newTickets(),
		sessions:  newSessions(),
		seal:      newSeal(),
		origin:    http.NewCrossOriginProtection(),
		mux:       http.NewServeMux(),
	}
	if s.previews, err = parsePreviews(cfg.Previews); err != nil {
		return nil, err
	}
	s.proxy = s.newProxy()
	if err := s.routes(); err != nil {
		return nil, err
	}
	return http.HandlerFunc(s.serve), nil
}

type server struct {
	cfg       Config
	log       *slog.Logger
	admission *admission
	gate      *gate
	rates     *rates
	slots     *slots // of commands
	shells    *slots // of terminals, which nobody may be at: no command waits for them
	runs      *runs
	uploads   *uploads
	tickets   *tickets
	sessions  *sessions
	previews  previewNames
	seal      *seal
	proxy     *httputil.ReverseProxy
	origin    *http.CrossOriginProtection
	mux       *http.ServeMux
}

// routes registers every operation. Each goes through guard, which decides by
// its pattern who may come in.
func (s *server) routes() error {
	strict := api.NewStrictHandlerWithOptions(typed{s}, nil, api.StrictHTTPServerOptions{
		RequestErrorHandlerFunc: s.badBody, ResponseErrorHandlerFunc: s.fail,
	})
	mux := guarded{s, map[string]http.HandlerFunc{}}
	api.HandlerWithOptions(strict, api.StdHTTPServerOptions{BaseRouter: mux, ErrorHandlerFunc: s.badParameter})
	for pattern, h := range s.raw() {
		mux.HandleFunc(pattern, h)
	}
	for alias, pattern := range aliases {
		mux.HandleFunc(alias, mux.handlers[pattern])
	}
	return s.routeAgents(mux)
}

// typed has the operations whose bodies are values.
type typed struct{ *server }

var _ api.StrictServerInterface = typed{}

// raw are the operations whose bodies are bytes, pages or sockets.
func (s *server) raw() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /v1/sandbox/{id}/fs":          s.getFile,
		"HEAD /v1/sandbox/{id}/fs":         s.headFile,
		"POST /v1/sandbox/{id}/fs":         s.postFile,
		"DELETE /v1/sandbox/{id}/fs":       s.deleteFile,
		"GET /v1/sandbox/{id}/exec/ws":     s.execSocket,
		"GET /v1/sandbox/{id}/dial/{port}": s.dialSocket,

		"GET /v1/sandbox/{id}/terminal":    s.page("terminal"),
		"GET /v1/sandbox/{id}/terminal/ws": s.terminalSocket,
		"GET /v1/sandbox/{id}/screen":      s.page("screen"),
		"GET /v1/sandbox/{id}/screen/ws":   s.screenSocket,

		"POST /v1/exec/upload":                           s.upload,
		"GET /v1/exec/download/{session_id}/{fileId...}": s.download,
		"GET /v1/exec/files/{sid}":                       s.listFiles,
		"POST /v1/exec/programmatic":                     s.programmatic,

		"GET /livez":        s.livez,
		"GET /readyz":       s.readyz,
		"GET /openapi.yaml": serveBytes("application/yaml", api.YAML),
		"GET /openapi.json": serveBytes("application/json", api.JSON),
		"GET /docs":         s.docs,

		"GET /{$}":           s.console(),
		"GET /web/{path...}": s.webFile,
	}
}

// aliases are for clients that hang everything off one base address.
var aliases = map[string]string{
	"POST /v1/exec/exec":                        "POST /v1/exec",
	"POST /v1/upload":                           "POST /v1/exec/upload",
	"GET /v1/download/{session_id}/{fileId...}": "GET /v1/exec/download/{session_id}/{fileId...}",
	"GET /v1/files/{sid}":                       "GET /v1/exec/files/{sid}",
	"POST /v1/exec/exec/programmatic":           "POST /v1/exec/programmatic",
}
