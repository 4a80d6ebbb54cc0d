package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/internal/socket"
	"github.com/hanzoai/sandbox/sandbox"
)

// upgradable refuses what is no request for a socket, while it can still be
// answered by a problem. That a browser's comes from this site is checked by
// the library.
func upgradable(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return problem.New(problem.BadRequest, "this address is a WebSocket: send Upgrade: websocket")
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameSite(origin, r.Host) {
		return problem.New(problem.CrossOrigin, "a browser sent this from another site")
	}
	return nil
}

func sameSite(origin, host string) bool {
	_, at, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(at, host)
}

// lastingSocket returns the context of a socket, which ends once p's key has
// been revoked. That the peer is gone is noticed by reading from it.
func (s *server) lastingSocket(r *http.Request, p principal) (context.Context, context.CancelFunc) {
	return s.admission.lasting(context.WithoutCancel(r.Context()), p)
}

// accept makes the socket. After an error the answer has been given.
func accept(w http.ResponseWriter, r *http.Request) (*socket.Conn, error) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil, err
	}
	return socket.New(ws), nil
}

// dialSocket connects to a port inside.
func (s *server) dialSocket(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	err := upgradable(r)
	var inside net.Conn
	if err == nil {
		inside, err = sandbox.Handle(s.sandboxes(r.Context()), id).DialContext(r.Context(), "tcp", "localhost:"+r.PathValue("port"))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer inside.Close()
	outside, err := accept(w, r)
	if err != nil {
		return
	}
	ctx, end := s.lastingSocket(r, principalOf(r.Context()))
	defer end()
	if err := join(ctx, inside, outside); err != nil {
		outside.Fail("the connection broke") //nolint:errcheck // it is broken
		return
	}
	outside.Finish() //nolint:errcheck // the peer may be gone first
}

// join copies both ways until both have ended, one has broken or ctx has
// ended.
func join(ctx context.Context, inside net.Conn, outside *socket.Conn) error {
	defer context.AfterFunc(ctx, func() {
		outside.Fail(context.Cause(ctx).Error()) //nolint:errcheck // it may be broken
		inside.Close()
	})()
	var wg sync.WaitGroup
	errs := make([]error, 2)
	wg.Go(func() { errs[0] = half(outside, inside) })
	wg.Go(func() { errs[1] = half(inside, outside) })
	wg.Wait()
	return errors.Join(errs...)
}

// half copies one way and passes the end on. If it breaks, so do both.
func half(to, from net.Conn) error {
	_, err := io.CopyBuffer(onlyWriter{to}, onlyReader{from}, make([]byte, copyChunk))
	if err == nil {
		if c, ok := to.(interface{ CloseWrite() error }); ok {
			return c.CloseWrite()
		}
	}
	from.Close()
	to.Close()
	return err
}
