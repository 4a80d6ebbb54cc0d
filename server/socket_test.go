package server_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// socket opens a command's socket, which the test closes.
func (d *desk) socket() *websocket.Conn {
	d.t.Helper()
	header := http.Header{"Authorization": {"Bearer " + d.key}}
	ws, _, err := websocket.Dial(d.t.Context(), d.url+"/v1/sandbox/"+d.id+"/exec/ws", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { ws.CloseNow() })
	ws.SetReadLimit(wire.Window)
	return ws
}

// TestSocketWithoutARequest asks for nothing.
func TestSocketWithoutARequest(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{Limits: server.Limits{BodyTime: 50 * time.Millisecond, OrgRuns: 1}})
	ws := d.socket()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var said strings.Builder
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			break
		}
		said.Write(b)
	}
	is.NoErr(ctx.Err())
	is.True(strings.Contains(said.String(), `"canceled"`))
	_, status := d.exec("command", "true")
	is.Equal(status, 200) // it holds no place any more
}

// TestSocketThatTakesNothing has a program that says more than its peer takes,
// in a sandbox that ends.
func TestSocketThatTakesNothing(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{
		Sandboxes: server.Runtime(runtimetest.New(t, sandbox.Config{})),
		Limits:    server.Limits{BodyTime: 200 * time.Millisecond, OrgRuns: 1, QueueTime: 10 * time.Second},
	})
	ws := d.socket()
	request := wire.Request{Op: wire.OpExec, Argv: []string{"yes"}, Streams: wire.Stdout, UID: 1000, GID: 1000}
	is.NoErr(ws.Write(t.Context(), websocket.MessageBinary, wire.AppendFrame(nil, wire.KindRequest, request.Append(nil))))
	for n := 0; n < wire.Window; { // and then gives no credit
		_, b, err := ws.Read(t.Context())
		is.NoErr(err)
		n += len(b)
	}
	d.send(t.Context(), http.MethodDelete, "/v1/sandbox/"+d.id, "")
	var out struct{ ID string }
	d.post("/v1/sandbox", `{}`, &out)
	d.id = out.ID
	_, status := d.exec("command", "true")
	is.Equal(status, 200) // it holds no place any more
}

// TestSocketRunTime has a command by socket run no longer than any other,
// whether its peer takes what it says or not; but for one with a terminal.
func TestSocketRunTime(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{
		Sandboxes: server.Runtime(runtimetest.New(t, sandbox.Config{})),
		Limits:    server.Limits{RunTime: time.Second, OrgRuns: 1, QueueTime: 10 * time.Second},
	})
	remote, err := client.New(d.url, client.Config{Key: d.key})
	is.NoErr(err)
	sb := sandbox.Handle(remote, d.id)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := sb.Command("sh", "-c", "echo begun; sleep 600")
	out, err := cmd.Output(ctx)
	is.NoErr(ctx.Err())
	is.Equal(string(out), "begun\n")
	e, ok := errors.AsType[*sandbox.ExitError](err)
	is.True(ok)
	is.Equal(e.Cause, sandbox.CauseTimeout)

	cmd = sb.Command("sh", "-c", "sleep 1.5; echo done")
	cmd.Terminal = sandbox.NewTerminal(24, 80)
	out, err = cmd.Output(ctx)
	is.NoErr(err)
	is.Equal(string(out), "done\r\n")

	ws := d.socket() // which gives no credit
	request := wire.Request{Op: wire.OpExec, Argv: []string{"yes"}, Streams: wire.Stdout, UID: 1000, GID: 1000}
	is.NoErr(ws.Write(t.Context(), websocket.MessageBinary, wire.AppendFrame(nil, wire.KindRequest, request.Append(nil))))
	_, _, err = ws.Read(ctx)
	is.NoErr(err)
	is.NoErr(sb.Command("true").Run(ctx)) // it holds no place any more
}

// TestStreamThatNobodyTakes has the answer end some time after the command.
func TestStreamThatNobodyTakes(t *testing.T) {
	is := is.New(t)
	m, keys := newMemory(t), keyring{}
	s := start(t, server.Config{Sandboxes: m.For, Keys: keys, Limits: server.Limits{BodyTime: 50 * time.Millisecond}})
	d := &desk{t: t, url: s.URL, keys: keys, key: keys.add("acme", "ada", false)}
	var out struct{ ID string }
	d.post("/v1/sandbox", `{}`, &out)
	d.send(t.Context(), http.MethodPost, "/v1/sandbox/"+out.ID+"/fs?path=large", strings.Repeat("x", 32<<20))

	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	is.NoErr(err)
	defer conn.Close()
	body := object("argv", []string{"cat", "large"}, "timeoutSec", 3, "stream", true)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/sandbox/"+out.ID+"/exec", strings.NewReader(body))
	is.NoErr(err)
	req.Header = http.Header{"Authorization": {"Bearer " + d.key}, "Content-Type": {"application/json"}}
	is.NoErr(req.Write(conn))
	answer := bufio.NewReader(conn)
	for line := ""; !strings.Contains(line, `"stdout"`); {
		begun, err := answer.Peek(answer.Size() / 8)
		is.NoErr(err) // else it does not run
		line = string(begun)
		_, err = answer.Discard(len(begun) / 2)
		is.NoErr(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	is.NoErr(s.Config.Shutdown(ctx)) // which waits for answers
}
