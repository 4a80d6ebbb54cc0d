package server

import (
	_ "embed"
	"io"
	"net/http"

	"github.com/hanzoai/sandbox/internal/problem"
)

func (s *server) livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, "ok\n")
}

func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Ready != nil {
		if err := s.cfg.Ready(r.Context()); err != nil {
			s.log.Warn("not ready", "error", err)
			s.write(w, problem.New(problem.NotReady, "the server is not ready"))
			return
		}
	}
	s.livez(w, r)
}

func serveBytes(kind string, b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Write(b)
	}
}

//go:embed docs.html
var docsPage []byte

// docs is a page of its own: it needs nothing from any other site, and lets
// nothing in.
func (s *server) docs(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	w.Write(docsPage)
}
