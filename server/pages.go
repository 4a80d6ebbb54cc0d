package server

import (
	"net/http"
	"strings"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/server/web"
)

// page is a page that others' pages may show in a frame.
func (s *server) page(name string) http.HandlerFunc {
	return web.Page(name, strings.Join(append([]string{"'self'"}, s.cfg.Frames...), " "))
}

// console is the page for a person with a key, which nobody frames.
func (s *server) console() http.HandlerFunc { return web.Page("console", "'none'") }

// webFile is what the pages are made of.
func (s *server) webFile(w http.ResponseWriter, r *http.Request) {
	if !web.File(w, r) {
		s.fail(w, r, problem.New(problem.NoRoute, "there is no such file"))
	}
}
