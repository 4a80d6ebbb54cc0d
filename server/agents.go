package server

import (
	"net/http"
	"strconv"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/server/mcp"
)

// Agents say how /v1/mcp is served, where agents find the operations as tools.
type Agents struct {
	// Off has the address not be there.
	Off bool
	// Bare leaves out the tools that are no operations.
	Bare bool
}

const (
	agentsPath   = "/v1/mcp"
	metadataPath = "/.well-known/oauth-protected-resource"
)

// routeAgents adds what agents come by. Their calls become requests to the
// operations, so that all that is decided there is decided once.
func (s *server) routeAgents(mux guarded) error {
	if s.cfg.Agents.Off {
		return nil
	}
	tools, err := mcp.New(mcp.Config{
		API: http.HandlerFunc(s.serve), Metadata: metadataPath + agentsPath,
		Admit: s.mayCall, Bare: s.cfg.Agents.Bare,
		MaxBody: s.cfg.Limits.JSONBody, WriteTime: s.cfg.Limits.BodyTime, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.mux.HandleFunc(agentsPath, func(w http.ResponseWriter, r *http.Request) { s.agents(w, r, tools) })
	for _, path := range []string{metadataPath, metadataPath + agentsPath} {
		mux.HandleFunc("GET "+path, s.protectedResource)
	}
	return nil
}

// mayCall says whose a request's credential is, if it is good for something.
func (s *server) mayCall(r *http.Request) (owner string, err error) {
	p, err := s.admission.tenant(r, execDoor)
	return strconv.Quote(p.Org) + p.User, err
}

func (s *server) agents(w http.ResponseWriter, r *http.Request, tools http.Handler) {
	err := s.origin.Check(r)
	if err != nil {
		err = problem.New(problem.CrossOrigin, "a browser sent this from another site")
	} else if r.Method == http.MethodPost {
		err = s.jsonBody(w, r)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	tools.ServeHTTP(w, r)
}

// protectedResource tells where credentials come from (RFC 9728).
func (s *server) protectedResource(w http.ResponseWriter, r *http.Request) {
	about := struct {
		Resource string   `json:"resource"`
		Issuers  []string `json:"authorization_servers,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
	}{Resource: mcp.Origin(r) + agentsPath, Methods: []string{"header"}, Name: "Sandbox"}
	if issuer := s.cfg.OIDC.Issuer; issuer != "" {
		about.Issuers = []string{issuer}
	}
	w.Header().Set("Cache-Control", "max-age="+strconv.Itoa(metadataAge))
	writeJSON(w, about) //nolint:errcheck // the caller has gone
}

// metadataAge is how long it may be kept, in seconds.
const metadataAge = 300
