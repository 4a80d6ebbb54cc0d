package server

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
)

// A peer is the page at the other end of a terminal's or screen's socket.
type peer struct{ ws *websocket.Conn }

const (
	// peerMessage bounds a message from the page.
	peerMessage = 64 << 10
	// pingEvery is how often the page is asked whether it is still there, and
	// pongTimeout how long it may take to say so.
	pingEvery   = 30 * time.Second
	pongTimeout = 3 * time.Minute
	// takeTimeout is how long the page may take nothing of what it is sent.
	takeTimeout = time.Minute
)

// meet makes the socket. After an error the answer has been given.
func meet(w http.ResponseWriter, r *http.Request, protocols ...string) (*peer, error) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: protocols})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(peerMessage)
	return &peer{ws}, nil
}

// watch breaks the socket when the page is gone without a word, until ctx
// ends. Somebody must read meanwhile.
func (p *peer) watch(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ping, cancel := context.WithTimeout(ctx, pongTimeout)
		err := p.ws.Ping(ping)
		cancel()
		if err != nil && ctx.Err() == nil {
			p.ws.CloseNow() //nolint:errcheck // it is broken
			return
		}
	}
}

// send sends bytes, which the page takes within its time.
func (p *peer) send(ctx context.Context, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	return p.ws.Write(ctx, websocket.MessageBinary, b)
}

// end closes the socket in good order, with the reason.
func (p *peer) end(reason string) {
	p.ws.Close(websocket.StatusNormalClosure, closeReason(reason)) //nolint:errcheck // the page may be gone first
}

// maxReason is what a close frame has room for.
const maxReason = 123

// closeReason cuts a reason to what fits, between characters.
func closeReason(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) <= maxReason {
		return reason
	}
	n := maxReason
	for !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n]
}
