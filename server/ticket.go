package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// ticketLife is how long a ticket is good for.
const ticketLife = 30 * time.Second

// A grant is what a ticket is good for: one thing, in one sandbox, for whom it
// was minted for.
type grant struct {
	principal principal
	id        string
	what      string    // terminal, screen or preview
	port      int       // of a preview
	run       time.Time // the run of the sandbox that a preview is of
}

// tickets are those that have been minted and not been presented yet. They are
// for browsers, which can send no credential with a socket or a link.
type tickets struct {
	mu    sync.Mutex
	held  map[[sha256.Size]byte]timedGrant // by the ticket's hash, so that finding one takes the same time for all
	swept time.Time
}

type timedGrant struct {
	grant
	until time.Time
}

func newTickets() *tickets { return &tickets{held: map[[sha256.Size]byte]timedGrant{}} }

const ticketBytes = 32

// ticketLen is how long one is, as text.
var ticketLen = base64.RawURLEncoding.EncodedLen(ticketBytes)

// mint returns a new ticket.
func (t *tickets) mint(g grant) string {
	ticket := base64.RawURLEncoding.EncodeToString(randomBytes(ticketBytes))
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	t.held[sha256.Sum256([]byte(ticket))] = timedGrant{g, now.Add(ticketLife)}
	return ticket
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// sweep forgets those whose time is over. The caller holds t.mu.
func (t *tickets) sweep(now time.Time) {
	if now.Sub(t.swept) < time.Second {
		return
	}
	t.swept = now
	for hash, g := range t.held {
		if !now.Before(g.until) {
			delete(t.held, hash)
		}
	}
}

// take spends a ticket. Of several who present it at once one gets it, and
// nobody does after that, whatever it then turns out to be good for.
func (t *tickets) take(ticket string) (grant, bool) {
	hash := sha256.Sum256([]byte(ticket))
	t.mu.Lock()
	defer t.mu.Unlock()
	g, ok := t.held[hash]
	delete(t.held, hash)
	return g.grant, ok && time.Now().Before(g.until)
}

var errBadTicket = problem.New(problem.Unauthorized, "the ticket is not valid: it is good for one use, within half a minute, for what it was minted for")

// presented returns who a socket's ticket is of. The sandbox runs.
func (s *server) presented(r *http.Request, what string) (principal, error) {
	g, ok := s.tickets.take(r.URL.Query().Get("ticket"))
	id := r.PathValue("id")
	if !ok || g.id != id || g.what != what {
		return principal{}, errBadTicket
	}
	_, err := s.running(r.Context(), g.principal, id)
	return g.principal, err
}

// running describes a sandbox that the principal has and that runs.
func (s *server) running(ctx context.Context, p principal, id string) (sandbox.Info, error) {
	info, err := s.cfg.Sandboxes(p.scope()).Info(ctx, id)
	if err == nil && info.Status != sandbox.StatusRunning {
		err = &sandbox.ConflictError{ID: id, Status: info.Status, Why: "sandbox is " + string(info.Status)}
	}
	return info, err
}

const (
	terminalTicket = "terminal"
	screenTicket   = "screen"
	previewTicket  = "preview"
)

func (s typed) ticket(ctx context.Context, id, what string) (api.SandboxTicketGrant, error) {
	p := principalOf(ctx)
	if _, err := s.running(ctx, p, id); err != nil {
		return api.SandboxTicketGrant{}, err
	}
	ticket := s.tickets.mint(grant{principal: p, id: id, what: what})
	return api.SandboxTicketGrant{
		Ticket: ticket, ExpiresIn: int64(ticketLife / time.Second),
		URL: "/v1/sandbox/" + id + "/" + what + "?ticket=" + ticket,
	}, nil
}

// PostSandboxByIDTerminalTicket mints.
func (s typed) PostSandboxByIDTerminalTicket(ctx context.Context, r api.PostSandboxByIDTerminalTicketRequestObject) (api.PostSandboxByIDTerminalTicketResponseObject, error) {
	g, err := s.ticket(ctx, r.ID, terminalTicket)
	if err != nil {
		return nil, err
	}
	return terminalGrant{api.PostSandboxByIDTerminalTicket201JSONResponse(g)}, nil
}

// PostSandboxByIDScreenTicket mints.
func (s typed) PostSandboxByIDScreenTicket(ctx context.Context, r api.PostSandboxByIDScreenTicketRequestObject) (api.PostSandboxByIDScreenTicketResponseObject, error) {
	g, err := s.ticket(ctx, r.ID, screenTicket)
	if err != nil {
		return nil, err
	}
	return screenGrant{api.PostSandboxByIDScreenTicket201JSONResponse(g)}, nil
}

// What has a ticket in it is not to be kept on its way.
type (
	terminalGrant struct {
		api.PostSandboxByIDTerminalTicket201JSONResponse
	}
	screenGrant struct {
		api.PostSandboxByIDScreenTicket201JSONResponse
	}
)

func (g terminalGrant) VisitPostSandboxByIDTerminalTicketResponse(w http.ResponseWriter) error {
	w.Header().Set("Cache-Control", "no-store")
	return g.PostSandboxByIDTerminalTicket201JSONResponse.VisitPostSandboxByIDTerminalTicketResponse(w)
}

func (g screenGrant) VisitPostSandboxByIDScreenTicketResponse(w http.ResponseWriter) error {
	w.Header().Set("Cache-Control", "no-store")
	return g.PostSandboxByIDScreenTicket201JSONResponse.VisitPostSandboxByIDScreenTicketResponse(w)
}
