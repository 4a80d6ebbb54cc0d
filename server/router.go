package server

import (
	"net/http"
	"runtime/debug"
	"slices"

	"github.com/hanzoai/sandbox/internal/problem"
)

// serve routes a request. What matches no route is answered here, as a problem
// like any other.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	defer s.recovered(w, r)
	if s.servePreview(w, r) {
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if h, pattern := s.mux.Handler(r); pattern == "" {
		s.noRoute(w, r, h)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// recovered answers for a handler that panicked. One that has begun its answer
// and cannot end it panics with http.ErrAbortHandler.
func (s *server) recovered(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		panic(v)
	}
	s.log.Error("a handler panicked", "route", r.Pattern, "panic", v, "stack", string(debug.Stack()))
	s.write(w, problem.New(problem.Internal, "the server failed; its log says why"))
}

func (s *server) noRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	answer := &verdict{header: http.Header{}}
	h.ServeHTTP(answer, r)
	if answer.status == http.StatusMethodNotAllowed {
		allow := answer.header.Get("Allow")
		w.Header().Set("Allow", allow)
		s.write(w, problem.New(problem.MethodNotAllowed, "this address takes "+allow))
		return
	}
	s.write(w, problem.New(problem.NoRoute, "there is nothing at this address; /openapi.json lists what there is"))
}

// A verdict is what the mux would answer.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) WriteHeader(status int)      { v.status = status }
func (v *verdict) Write(p []byte) (int, error) { return len(p), nil }

// A door says which credentials open a route.
type door int

const (
	memberDoor door = iota // a key or token
	execDoor               // those, or the service key
	openDoor               // anybody
)

// doors are the routes that are not for members alone. What is not here is.
var doors = map[string]door{
	"GET /livez":         openDoor,
	"GET /readyz":        openDoor,
	"GET /openapi.yaml":  openDoor,
	"GET /openapi.json":  openDoor,
	"GET /docs":          openDoor,
	"GET /{$}":           openDoor,
	"GET /web/{path...}": openDoor,

	// Pages are the same for everybody; sockets want a ticket.
	"GET /v1/sandbox/{id}/terminal":    openDoor,
	"GET /v1/sandbox/{id}/terminal/ws": openDoor,
	"GET /v1/sandbox/{id}/screen":      openDoor,
	"GET /v1/sandbox/{id}/screen/ws":   openDoor,

	"GET " + metadataPath:              openDoor,
	"GET " + metadataPath + agentsPath: openDoor,

	"POST /v1/exec":        execDoor,
	"POST /v1/exec/upload": execDoor,
	"GET /v1/exec/download/{session_id}/{fileId...}": execDoor,
	"GET /v1/exec/files/{sid}":                       execDoor,
	"POST /v1/exec/programmatic":                     execDoor,
	"POST /v1/exec/exec":                             execDoor,
	"POST /v1/upload":                                execDoor,
	"GET /v1/download/{session_id}/{fileId...}":      execDoor,
	"GET /v1/files/{sid}":                            execDoor,
	"POST /v1/exec/exec/programmatic":                execDoor,
}

// guarded is the mux, behind the doors.
type guarded struct {
	*server
	handlers map[string]http.HandlerFunc // by pattern
}

// HandleFunc registers a route.
func (g guarded) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	g.handlers[pattern] = f
	admit := g.guard(pattern, f)
	g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		admit(&timedWriter{w, g.cfg.Limits.StallTime}, r)
	})
}

// ServeHTTP is there for the generated code, which wants a whole mux.
func (g guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.serve(w, r) }

// guard is what a request goes through once it has been matched with a route.
func (s *server) guard(pattern string, next http.HandlerFunc) http.HandlerFunc {
	d := doors[pattern]
	if d == openDoor {
		return next
	}
	limit := s.jsonBody
	if takesFile(pattern) {
		limit = s.fileBody
	}
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := s.admission.tenant(r, d)
		if err == nil {
			err = s.rates.take(p.Name)
		}
		if err == nil && s.origin.Check(r) != nil {
			err = problem.New(problem.CrossOrigin, "a browser sent this from another site")
		}
		if err == nil {
			err = limit(w, r)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		ctx, end := s.admission.lasting(r.Context(), p)
		defer end()
		next(w, r.WithContext(withHost(withPrincipal(ctx, p), r.Host)))
	}
}

func takesFile(pattern string) bool {
	return slices.Contains([]string{"POST /v1/sandbox/{id}/fs", "POST /v1/exec/upload", "POST /v1/upload"}, pattern)
}
