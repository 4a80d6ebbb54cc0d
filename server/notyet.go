package server

import (
	"context"
	"net/http"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/problem"
)

// errNotYet is of terminals, screens and previews.
func errNotYet() error {
	p := problem.New("unsupported_capability", "this server has no terminals, screens and previews")
	p.Details.Error = p.Code
	return p
}

func (s *server) notYet(w http.ResponseWriter, r *http.Request) { s.fail(w, r, errNotYet()) }

// PostSandboxByIDPreview is refused.
func (s typed) PostSandboxByIDPreview(context.Context, api.PostSandboxByIDPreviewRequestObject) (api.PostSandboxByIDPreviewResponseObject, error) {
	return nil, errNotYet()
}

// PostSandboxByIDTerminalTicket is refused.
func (s typed) PostSandboxByIDTerminalTicket(context.Context, api.PostSandboxByIDTerminalTicketRequestObject) (api.PostSandboxByIDTerminalTicketResponseObject, error) {
	return nil, errNotYet()
}

// PostSandboxByIDScreenTicket is refused.
func (s typed) PostSandboxByIDScreenTicket(context.Context, api.PostSandboxByIDScreenTicketRequestObject) (api.PostSandboxByIDScreenTicketResponseObject, error) {
	return nil, errNotYet()
}
