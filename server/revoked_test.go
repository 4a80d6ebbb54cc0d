package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/server"
)

// TestRevokedKeyEndsWhatLasts opens all that stays open, and revokes the key in
// the store, as a command beside the server does. Another key's stays.
func TestRevokedKeyEndsWhatLasts(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	keys, beside := storeIn(t, root), storeIn(t, root)
	p := newShowing(t, server.Config{}, "")
	serveInside(t, p.sb, 5900) // which is no screen, and waits for what it is sent
	p.url = start(t, server.Config{Sandboxes: p.sandboxes, Keys: keys}).URL
	p.client = p.browser()
	secret := func() string {
		p.key = server.NewKey()
		return p.key
	}
	other, err := beside.AddKey(t.Context(), secret(), "acme", "ada", false)
	is.NoErr(err)
	stays := p.terminal("")
	stays.quiet()
	revoked, err := beside.AddKey(t.Context(), secret(), "acme", "ada", false)
	is.NoErr(err)
	is.True(other.ID != revoked.ID)

	at, bearer := "/v1/sandbox/"+p.id, http.Header{"Authorization": {"Bearer " + p.key}}
	p.enter()
	screen, _ := p.open(at+"/screen/ws?ticket="+p.ticket("screen"), nil)
	dialled, _ := p.open(at+"/dial/8000", bearer)
	command := p.desk.socket()
	request := wire.Request{Op: wire.OpExec, Argv: []string{"sleep", "600"}, UID: 1000, GID: 1000}
	is.NoErr(command.Write(t.Context(), websocket.MessageBinary, wire.AppendFrame(nil, wire.KindRequest, request.Append(nil))))
	lasting := map[string]*websocket.Conn{
		"a terminal": p.terminal("").ws, "a named terminal": p.terminal("&arg=main").ws,
		"a screen": screen, "a connection": dialled, "a command": command, "a preview's socket": p.socket(),
	}
	stream := p.send(t.Context(), http.MethodPost, at+"/exec", `{"argv":["sleep","600"],"stream":true}`)
	is.Equal(stream.StatusCode, 200)
	is.NoErr(beside.RevokeKey(t.Context(), revoked.ID))

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, ws := range lasting {
		var err error
		for err == nil {
			_, _, err = ws.Read(ctx)
		}
		if ctx.Err() != nil {
			t.Fatalf("%s goes on", name)
		}
		told := strings.Contains(err.Error(), "the key has been revoked")
		if !told && name != "a command" && name != "a preview's socket" { // which have their own ways to end
			t.Errorf("%s is not told why: %v", name, err)
		}
	}
	events, err := io.ReadAll(stream.Body)
	is.NoErr(err)
	is.True(strings.Contains(string(events), `"cause":"killed"`))
	stays.typeLine("echo still he''re")
	stays.until("still here\r\n")
}
