package mcp

import (
	"context"
	"crypto/rand"
	"sync"
)

func newSessionID() string { return rand.Text() }

// places are the sandboxes that callers who name none work in, by session.
type places struct {
	mu    sync.Mutex
	of    map[string]string
	order []string // of sessions, the oldest first
}

// maxPlaces bounds how many are kept in mind. A session whose place is
// forgotten gets another one.
const maxPlaces = 2 * maxSessions

func (p *places) get(session string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[session]
}

func (p *places) set(session, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]string{}
	}
	if _, ok := p.of[session]; !ok {
		if len(p.order) == maxPlaces {
			delete(p.of, p.order[0])
			p.order = p.order[1:]
		}
		p.order = append(p.order, session)
	}
	p.of[session] = id
}

// standsAlone reports whether a call is of no session.
func standsAlone(ctx context.Context) bool { return ctx.Value(requestKey{}) != nil }
