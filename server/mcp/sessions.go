package mcp

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessions are those of callers, for as long as they last.
type sessions struct {
	mu sync.Mutex
	of map[string]*held
}

// A held is what is known of a session.
type held struct {
	owner string          // whose it is; nobody else can use it
	life  context.Context //nolint:containedctx // the session's own
	end   func()          // ends what is done for it

	mu    sync.Mutex // held by who leases, so that calls at a time lease once
	place string     // the sandbox that calls work in that name none
}

// hold keeps a session in mind until it ends, as whose it is by the context of
// what comes first.
func (s *sessions) hold(ctx context.Context, session *sdk.ServerSession) *held {
	key := session.ID()
	if key == "" { // over a pipe
		key = fmt.Sprintf("%p", session)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.of[key]; h != nil {
		return h
	}
	if s.of == nil {
		s.of = map[string]*held{}
	}
	h := &held{owner: ownerOf(ctx)}
	h.life, h.end = context.WithCancel(context.WithoutCancel(ctx))
	s.of[key] = h
	go func() {
		session.Wait() //nolint:errcheck // that it has ended is all
		h.end()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.of, key)
	}()
	return h
}

// isOf reports whether a session is the owner's. One that is not known is.
func (s *sessions) isOf(id, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.of[id]
	return h == nil || h.owner == owner
}

// count is how many sessions an owner has.
func (s *sessions) count(owner string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, h := range s.of {
		if h.owner == owner {
			n++
		}
	}
	return n
}

// end ends what is done for a session, for which its end would wait.
func (s *sessions) end(id string) {
	s.mu.Lock()
	h := s.of[id]
	s.mu.Unlock()
	if h != nil {
		h.end()
	}
}

type ownerKey struct{}

// ownerOf is whose a session is to be that begins.
func ownerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string) //nolint:errcheck // over a pipe there is one alone
	return owner
}

type requestKey struct{}

// withRequest has what is done for a request know when its caller has gone:
// without a session nobody else can have it stopped.
func withRequest(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context()))
}

// standsAlone reports whether a call is of no session.
func standsAlone(ctx context.Context) bool { return ctx.Value(requestKey{}) != nil }

// within ends a call's context with what the call is for: the request if that
// stands for itself, or the session.
func (s *sessions) within(ctx context.Context, session *sdk.ServerSession) (context.Context, context.CancelFunc) {
	life, alone := ctx.Value(requestKey{}).(context.Context)
	if !alone {
		life = s.hold(ctx, session).life
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
