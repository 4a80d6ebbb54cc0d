package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/coder/websocket"

	"github.com/hanzoai/sandbox/internal/problem"
)

type terminalCmd struct {
	Open   terminalOpenCmd   `cmd:"" default:"withargs" help:"Open a terminal in this one."`
	Get    terminalGetCmd    `cmd:"" help:"Print its page."`
	Ticket terminalTicketCmd `cmd:"" help:"Mint a ticket for the page and the socket."`
	Ws     terminalWsCmd     `cmd:"" help:"Carry the socket over standard input and output."`
}

// Help is what --help adds.
func (c *terminalCmd) Help() string {
	return `Examples:
  hanzo sandbox terminal ID              # opens one here
  hanzo sandbox terminal ID --arg build  # one with a name, to come back to
  hanzo sandbox terminal ticket ID`
}

type terminalOpenCmd struct {
	ID  string `arg:"" help:"The sandbox."`
	Arg string `placeholder:"NAME" help:"The name of a session to come back to."`
}

// Help is what --help adds.
func (c *terminalOpenCmd) Help() string {
	return `A terminal with a name outlives this program: who opens it again sees what was last on it, and goes on.

Examples:
  hanzo sandbox terminal ID
  hanzo sandbox terminal ID --arg build`
}

// Run mints a ticket and uses it.
func (c *terminalOpenCmd) Run(a *app) error {
	if !isTerminal(os.Stdin) {
		return usage("standard input is no terminal")
	}
	ticket, err := a.ticket(c.ID, "terminal")
	if err != nil {
		return err
	}
	return a.socket(c.ID, "terminal", values("ticket", ticket, "arg", c.Arg), true)
}

func (a *app) ticket(id, what string) (string, error) {
	var grant struct{ Ticket string }
	err := a.ask(post("v1", "sandbox", id, what, "ticket"), &grant)
	return grant.Ticket, err
}

type terminalGetCmd struct {
	ID     string `arg:"" help:"The sandbox."`
	Ticket string `help:"A ticket."`
}

// Run prints the page.
func (c *terminalGetCmd) Run(a *app) error { return a.page(c.ID, "terminal", c.Ticket) }

func (a *app) page(id, what, ticket string) error {
	q := get("v1", "sandbox", id, what)
	q.query = values("ticket", ticket)
	return a.copy(q, os.Stdout)
}

type terminalTicketCmd struct {
	ID string `arg:"" help:"The sandbox."`
}

// Run mints.
func (c *terminalTicketCmd) Run(a *app) error {
	return a.show(post("v1", "sandbox", c.ID, "terminal", "ticket"))
}

type terminalWsCmd struct {
	ID     string `arg:"" help:"The sandbox."`
	Ticket string `required:"" help:"A ticket."`
	Arg    string `placeholder:"NAME" help:"The name of a session to come back to."`
}

// Run carries the socket.
func (c *terminalWsCmd) Run(a *app) error {
	return a.socket(c.ID, "terminal", values("ticket", c.Ticket, "arg", c.Arg), false)
}

type screenCmd struct {
	Get    screenGetCmd    `cmd:"" help:"Print its page."`
	Ticket screenTicketCmd `cmd:"" help:"Mint a ticket for the page and the socket."`
	Ws     screenWsCmd     `cmd:"" help:"Carry the socket over standard input and output."`
}

type screenGetCmd struct {
	ID     string `arg:"" help:"The sandbox."`
	Ticket string `help:"A ticket."`
}

// Run prints the page.
func (c *screenGetCmd) Run(a *app) error { return a.page(c.ID, "screen", c.Ticket) }

type screenTicketCmd struct {
	ID string `arg:"" help:"The sandbox."`
}

// Run mints.
func (c *screenTicketCmd) Run(a *app) error {
	return a.show(post("v1", "sandbox", c.ID, "screen", "ticket"))
}

type screenWsCmd struct {
	ID     string `arg:"" help:"The sandbox."`
	Ticket string `required:"" help:"A ticket."`
}

// Run carries the socket.
func (c *screenWsCmd) Run(a *app) error {
	return a.socket(c.ID, "screen", values("ticket", c.Ticket), false)
}

// maxFrame bounds a message of a socket's.
const maxFrame = 1 << 20

// socket carries a socket over standard input and output, until either ends.
// The ticket is its credential, so that the key is not sent. Typed has them be
// a person's terminal.
func (a *app) socket(id, what string, query url.Values, typed bool) (err error) {
	base, err := a.base()
	if err != nil {
		return err
	}
	address := base + "/v1/sandbox/" + url.PathEscape(id) + "/" + what + "/ws?" + query.Encode()
	ws, resp, err := websocket.Dial(a.ctx, address, &websocket.DialOptions{HTTPClient: httpClient}) //nolint:bodyclose // Received does
	if err != nil {
		if resp == nil || resp.StatusCode/100 <= 2 {
			return a.explain(err)
		}
		return a.explain(problem.Received(resp))
	}
	defer ws.CloseNow()
	ws.SetReadLimit(maxFrame)
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	if typed {
		resize := func(rows, cols int) {
			text := fmt.Sprintf(`{"resize":{"cols":%d,"rows":%d}}`, cols, rows)
			ws.Write(ctx, websocket.MessageText, []byte(text)) //nolint:errcheck // reading fails too
		}
		t, err := a.raw(resize)
		if err != nil {
			return err
		}
		defer t.restore()
		defer func() {
			if err != nil {
				t.reset()
			}
		}()
		resize(size(t.fd))
	}
	go send(ctx, ws)
	for {
		_, message, err := ws.Read(ctx)
		if err != nil {
			return closed(err)
		}
		if _, err := os.Stdout.Write(message); err != nil {
			return err
		}
	}
}

// closed is how a socket ended.
func closed(err error) error {
	var reason websocket.CloseError
	if !errors.As(err, &reason) {
		return err
	}
	if reason.Code == websocket.StatusNormalClosure && (reason.Reason == "" || strings.HasSuffix(reason.Reason, "closed")) {
		return nil
	}
	return errors.New(printable(reason.Reason))
}

// send sends what is typed. The end of it does not end the socket.
func send(ctx context.Context, ws *websocket.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 && ws.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}
