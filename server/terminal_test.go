package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// engineDesk is a desk with a sandbox of the real engine.
func engineDesk(t *testing.T) *desk {
	t.Helper()
	rt := runtimetest.New(t, sandbox.Config{})
	return newDesk(t, server.Config{Sandboxes: server.Runtime(rt)})
}

func (d *desk) ticket(door string) string {
	d.t.Helper()
	resp := d.send(d.t.Context(), http.MethodPost, "/v1/sandbox/"+d.id+"/"+door+"/ticket", "")
	var out struct {
		Ticket, URL string
		ExpiresIn   int
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusCreated {
		d.t.Fatal("a ticket: ", resp.Status, err)
	}
	if out.URL != "/v1/sandbox/"+d.id+"/"+door+"?ticket="+out.Ticket || out.ExpiresIn != 30 || resp.Header.Get("Cache-Control") != "no-store" {
		d.t.Errorf("%+v, %q", out, resp.Header.Get("Cache-Control"))
	}
	return out.Ticket
}

// open presents a ticket at a socket, and returns it or the status.
func (d *desk) open(path string, header http.Header) (*websocket.Conn, int) {
	d.t.Helper()
	ws, resp, err := websocket.Dial(d.t.Context(), d.url+path, &websocket.DialOptions{HTTPHeader: header})
	if err != nil && resp == nil {
		d.t.Fatal(err)
	}
	if err == nil {
		ws.SetReadLimit(-1)
		d.t.Cleanup(func() { ws.CloseNow() })
	}
	return ws, resp.StatusCode
}

// A tty is a terminal's page, without the page.
type tty struct {
	t    testing.TB
	ws   *websocket.Conn
	seen []byte
}

func (d *desk) terminal(query string) *tty {
	d.t.Helper()
	ws, status := d.open("/v1/sandbox/"+d.id+"/terminal/ws?ticket="+d.ticket("terminal")+query, nil)
	if status != http.StatusSwitchingProtocols {
		d.t.Fatal("status ", status)
	}
	return &tty{t: d.t, ws: ws}
}

func (y *tty) send(kind websocket.MessageType, text string) {
	y.t.Helper()
	if err := y.ws.Write(y.t.Context(), kind, []byte(text)); err != nil {
		y.t.Fatal(err)
	}
}

func (y *tty) typeLine(text string) { y.t.Helper(); y.send(websocket.MessageText, text+"\r") }

// until reads up to a mark, and returns what came before it.
func (y *tty) until(mark string) string {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), 30*time.Second)
	defer cancel()
	for {
		if before, after, ok := bytes.Cut(y.seen, []byte(mark)); ok {
			y.seen = append([]byte(nil), after...)
			return string(before)
		}
		kind, b, err := y.ws.Read(ctx)
		if err != nil || kind != websocket.MessageBinary {
			y.t.Fatalf("waiting for %q: %v %v, after %q", mark, kind, err, y.seen)
		}
		y.seen = append(y.seen, b...)
	}
}

// quiet has the shell say no more than its commands do.
func (y *tty) quiet() {
	y.t.Helper()
	y.typeLine("PS1=at-''your-service exec sh") // which, unlike others, leaves the terminal as it is
	y.until("at-your-service")
	y.typeLine("stty -echo; PS1=; echo re''ady")
	y.until("ready\r\n")
}

// end reads to the end, and returns why it is one.
func (y *tty) end() string {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, b, err := y.ws.Read(ctx)
		if err == nil {
			y.seen = append(y.seen, b...)
			continue
		}
		closed, ok := errors.AsType[websocket.CloseError](err)
		if !ok {
			y.t.Fatal(err)
		}
		return fmt.Sprintf("%d %s", closed.Code, closed.Reason)
	}
}

func TestTerminal(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	y := d.terminal("")
	y.send(websocket.MessageText, `{"resize":{"cols":132,"rows":50}}`)
	y.quiet()
	y.typeLine("stty size; pwd; echo $TERM")
	is.Equal(y.until("color\r\n"), "50 132\r\n/mnt/data\r\nxterm-256")
	y.typeLine(`sh -c 'trap "stty size; exit" WINCH; echo trapped; sleep 1000 & wait'`)
	y.until("trapped\r\n")
	y.send(websocket.MessageText, `{"resize":{"cols":90,"rows":30}}`)
	y.until("30 90\r\n")
	y.typeLine("echo c''at; cat")
	y.until("cat\r\n")
	// What is only like a size is typed, and so is a size in a binary message.
	for _, typed := range []string{`{"resize": {"cols":1,"rows":1}}`, ` {"resize":{"cols":2,"rows":2}}`, `{"resize":{"cols":0,"rows":2}}`} {
		y.typeLine(typed)
		is.Equal(y.until("}}\r\n")+"}}", typed)
	}
	y.send(websocket.MessageBinary, `{"resize":{"cols":3,"rows":3}}`)
	y.send(websocket.MessageBinary, "\r")
	y.until("{\"resize\":{\"cols\":3,\"rows\":3}}\r\n")
	y.send(websocket.MessageBinary, "\x03")
	y.typeLine("stty size")
	y.until("30 90\r\n")
	y.typeLine(`printf '\303'; printf '\251\n'`)
	is.Equal(y.until("\r\n"), "é")
	y.typeLine("exit 3")
	is.Equal(y.end(), "1000 terminal closed")
}

// TestTerminalLosesNothing has more come than is kept, to a page that does not
// take it at first.
func TestTerminalLosesNothing(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	y := d.terminal("&arg=big")
	y.quiet()
	const size = 8 << 20
	y.typeLine(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo; echo fin''ished", size))
	is.Equal(strings.Count(y.until("finished"), "x"), size)
	y.typeLine("exit")
	is.Equal(y.end(), "1000 terminal closed")
}

func TestTerminalMessageLimit(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	y := d.terminal("")
	y.quiet()
	y.typeLine("stty raw; echo r''aw; head -c 65536 | wc -c")
	y.until("raw\n")
	y.send(websocket.MessageBinary, strings.Repeat("x", 64<<10))
	y.until("65536")
	y.ws.Write(t.Context(), websocket.MessageBinary, make([]byte, 64<<10+1))
	is.Equal(y.end()[:4], "1009")
}

func TestTickets(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	other := *d
	var out struct{ ID string }
	d.post("/v1/sandbox", `{}`, &out)
	other.id = out.ID
	socket := func(d *desk, door, ticket, more string, header http.Header) int {
		_, status := d.open("/v1/sandbox/"+d.id+"/"+door+"/ws?ticket="+ticket+more, header)
		return status
	}
	good := d.ticket("terminal")
	for _, arg := range []string{"a;b", "$(id)", "-x", strings.Repeat("a", 65), "a%20b", "%C3%A9", "a%0a"} {
		is.Equal(socket(d, "terminal", good, "&arg="+arg, nil), 400)
	}
	is.Equal(socket(d, "terminal", good, "", http.Header{"Origin": {"https://evil.example"}}), 403)
	is.Equal(d.send(t.Context(), http.MethodGet, "/v1/sandbox/"+d.id+"/terminal/ws?ticket="+good, "").StatusCode, 400) // no socket
	page := d.send(t.Context(), http.MethodGet, "/v1/sandbox/"+d.id+"/terminal?ticket="+good, "")
	is.Equal(page.StatusCode, 200)                            // the page looks at nothing
	is.Equal(socket(d, "terminal", good, "&arg=x", nil), 101) // and none of this has spent it
	is.Equal(socket(d, "terminal", good, "&arg=x", nil), 401)

	wrong := d.ticket("terminal")
	is.Equal(socket(&other, "terminal", wrong, "", nil), 401) // another sandbox's
	is.Equal(socket(d, "terminal", wrong, "", nil), 401)      // which spent it
	wrong = d.ticket("screen")
	is.Equal(socket(d, "terminal", wrong, "", nil), 401) // another door's
	is.Equal(socket(d, "screen", wrong, "", nil), 401)
	is.Equal(socket(d, "terminal", "", "", nil), 401)
	is.Equal(socket(d, "terminal", strings.Repeat("A", 43), "", nil), 401)

	late := d.ticket("terminal")
	is.Equal(d.send(t.Context(), http.MethodDelete, "/v1/sandbox/"+d.id, "").StatusCode, 204)
	is.Equal(socket(d, "terminal", late, "", nil), 404)
	is.Equal(d.send(t.Context(), http.MethodPost, "/v1/sandbox/"+d.id+"/terminal/ticket", "").StatusCode, 404)
}

func TestOneTicketOneWinner(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	ticket := d.ticket("terminal")
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			ws, resp, err := websocket.Dial(t.Context(), d.url+"/v1/sandbox/"+d.id+"/terminal/ws?ticket="+ticket, nil)
			switch {
			case err == nil:
				won.Add(1)
				ws.CloseNow()
			case resp != nil && resp.StatusCode == http.StatusUnauthorized:
				lost.Add(1)
			}
		})
	}
	wg.Wait()
	is.Equal(won.Load(), int32(1))
	is.Equal(lost.Load(), int32(49))
}

// TestParkedHasNoTicket has a parked sandbox have no door.
func TestParkedHasNoTicket(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	var out struct{ ID string }
	d.post("/v1/sandbox", `{"disk":true}`, &out)
	d.id = out.ID
	late := d.ticket("terminal")
	y := d.terminal("")
	y.quiet()
	is.Equal(d.send(t.Context(), http.MethodPost, "/v1/sandbox/"+d.id+"/pause", "").StatusCode, 200)
	end := y.end()
	is.True(strings.HasPrefix(end, "1000 ") && strings.Contains(end, "parked"))
	for _, door := range []string{"terminal/ticket", "screen/ticket", "preview"} {
		is.Equal(d.send(t.Context(), http.MethodPost, "/v1/sandbox/"+d.id+"/"+door, `{"port":80}`).StatusCode, 409)
	}
	is.Equal(d.send(t.Context(), http.MethodGet, "/v1/sandbox/"+d.id+"/ports", "").StatusCode, 409)
	_, status := d.open("/v1/sandbox/"+d.id+"/terminal/ws?ticket="+late, nil)
	is.Equal(status, 409)
}

// TestSessionsAreComeBackTo has a shell stay for whoever comes with its name.
func TestSessionsAreComeBackTo(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	y := d.terminal("&arg=main")
	y.quiet()
	y.typeLine("here=before; echo shown be''fore")
	y.until("shown before\r\n")
	y.ws.CloseNow()

	y = d.terminal("&arg=main")
	y.until("shown before\r\n") // what was shown is shown again
	y.typeLine("echo it is $here")
	y.until("it is before\r\n")

	both := d.terminal("&arg=main")
	both.until("it is before\r\n")
	both.send(websocket.MessageText, `{"resize":{"cols":100,"rows":40}}`)
	both.typeLine("echo to both; stty size")
	y.until("to both\r\n40 100\r\n")
	both.until("to both\r\n40 100\r\n")
	y.send(websocket.MessageText, `{"resize":{"cols":70,"rows":20}}`)
	y.typeLine("stty size")
	both.until("20 70\r\n") // the last who does something counts
	both.typeLine("stty size")
	both.until("40 100\r\n")

	none := d.terminal("")
	none.quiet()
	none.typeLine("echo it is ${here-other}")
	none.until("it is other\r\n") // without a name, and with another, it is another shell
	second := d.terminal("&arg=second")
	second.quiet()
	second.typeLine("echo it is ${here-other}")
	second.until("it is other\r\n")

	y.typeLine("exit")
	is.Equal(y.end(), "1000 terminal closed")
	is.Equal(both.end(), "1000 terminal closed")
	fresh := d.terminal("&arg=main")
	fresh.quiet()
	fresh.typeLine("echo it is ${here-fresh}")
	fresh.until("it is fresh\r\n")
}

// TestShellsTakeNoRunsPlace leaves a shell behind that goes on: commands have
// their places as before, and shells are bounded by themselves.
func TestShellsTakeNoRunsPlace(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	d := newDesk(t, server.Config{Sandboxes: server.Runtime(rt), Limits: server.Limits{OrgRuns: 1, QueueTime: 200 * time.Millisecond}})
	y := d.terminal("&arg=main")
	y.quiet()
	y.ws.CloseNow()
	_, status := d.exec("command", "true")
	is.Equal(status, 200)
	_, status = d.open("/v1/sandbox/"+d.id+"/terminal/ws?ticket="+d.ticket("terminal"), nil)
	is.Equal(status, 429)
	y = d.terminal("&arg=main") // to come back takes no other place
	y.typeLine("exit")
	is.Equal(y.end(), "1000 terminal closed")
	d.terminal("").quiet()
}

// TestTerminalWithoutANameEnds has nothing of a shell stay when its page goes.
func TestTerminalWithoutANameEnds(t *testing.T) {
	d := engineDesk(t)
	look := d.terminal("")
	look.quiet()
	y := d.terminal("")
	y.quiet()
	y.typeLine("sleep 4321 & echo st''arted")
	y.until("started\r\n")
	y.ws.CloseNow()
	look.typeLine("while grep -sqa 4321 /proc/[0-9]*/cmdline --exclude-dir=self; do :; done; echo g''one")
	look.until("gone\r\n")
}

func TestSessionsAreBounded(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	// More come at once than there may be, each with a name of its own.
	var had []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 20 {
		name := fmt.Sprintf("&arg=s%d", i)
		path := "/v1/sandbox/" + d.id + "/terminal/ws?ticket=" + d.ticket("terminal") + name
		wg.Go(func() {
			if _, status := d.open(path, nil); status == http.StatusSwitchingProtocols {
				mu.Lock()
				defer mu.Unlock()
				had = append(had, name)
			} else if status != http.StatusTooManyRequests {
				t.Error(status)
			}
		})
	}
	wg.Wait()
	is.Equal(len(had), 16)
	d.terminal(had[3])
}

func TestTerminalEndsWithTheLease(t *testing.T) {
	is := is.New(t)
	d := engineDesk(t)
	var out struct{ ID string }
	d.post("/v1/sandbox", `{"ttlSec":3,"fixed":true}`, &out)
	d.id = out.ID
	y := d.terminal("&arg=main")
	end := y.end()
	is.True(strings.HasPrefix(end, "1000 ") && strings.Contains(end, "ended"))
}
