package server

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// facing serves a page that is asked often whether it is there, and returns
// the page's end of the socket.
func facing(t *testing.T, serve func(*peer)) (ws *websocket.Conn, served <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		page, err := meet(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		page.ping, page.pong = 50*time.Millisecond, 100*time.Millisecond
		serve(page)
	}))
	t.Cleanup(s.Close)
	ws, _, err := websocket.Dial(t.Context(), s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.CloseNow() })
	return ws, done
}

func returns(t *testing.T, served <-chan struct{}) {
	t.Helper()
	select {
	case <-served:
	case <-time.After(20 * time.Second):
		t.Fatal("it is still served")
	}
}

// TestNobodyReadsAndThePageIsGone has a program that reads nothing hold up
// nothing once the page is gone, with a word or without, and however much it
// has typed.
func TestNobodyReadsAndThePageIsGone(t *testing.T) {
	for name, messages := range map[string]int{"a key": 1, "more than waits": typedAhead + 8} {
		t.Run(name, func(t *testing.T) {
			shown := newSession(true)
			ws, served := facing(t, func(page *peer) {
				v := shown.join()
				defer shown.leave(v)
				show(t.Context(), page, v)
			})
			for range messages {
				if err := ws.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			if messages == 1 {
				ws.CloseNow()
			}
			returns(t, served)
		})
	}
}

func TestAScreenTakesNothingAndThePageIsGone(t *testing.T) {
	screen, inside := net.Pipe()
	defer inside.Close()
	ws, served := facing(t, func(page *peer) { carry(t.Context(), page, screen) })
	if err := ws.Write(t.Context(), websocket.MessageBinary, []byte(strings.Repeat("x", peerMessage))); err != nil {
		t.Fatal(err)
	}
	returns(t, served)
}
