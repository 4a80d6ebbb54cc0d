package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// sessionName is what a terminal's session may be called.
var sessionName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// terminalSocket is a shell on a socket. Without a name it ends with the
// socket, with one it stays for the next.
func (s *server) terminalSocket(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	err := upgradable(r)
	query, queryErr := url.ParseQuery(r.URL.RawQuery)
	name := query.Get("arg")
	if err == nil && queryErr != nil {
		err = problem.New(problem.BadRequest, "the query cannot be read") // or part of it would not count
	}
	if err == nil && name != "" && !sessionName.MatchString(name) {
		err = problem.New(problem.BadRequest, "arg: want 1 to 64 of A-Z, a-z, 0-9, _ and -, and no - at the start")
	}
	var p principal
	if err == nil {
		p, err = s.presented(r, terminalTicket)
	}
	var shown *session
	if err == nil {
		shown, err = s.sessions.open(r.Context(), s, p, id, name)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v := shown.join()
	defer shown.leave(v)
	page, err := meet(w, r)
	if err != nil {
		return
	}
	ctx, end := s.lastingSocket(r, p)
	defer end()
	show(ctx, page, v)
}

// show passes on what is typed and what appears, until the session ends, the
// page goes, or ctx ends, of which the page is told the cause.
func show(ctx context.Context, page *peer, v *viewer) {
	socket := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v.tasks.Go(func() {
		defer cancel() // listen may be held up, and not notice that the page is gone
		page.watch(ctx)
	})
	v.tasks.Go(func() {
		defer cancel()
		listen(socket, ctx, page, v)
	})
	for {
		b, err := v.next(ctx)
		if err == nil {
			err = page.send(ctx, b)
		}
		if err != nil {
			page.end(err.Error())
			return
		}
	}
}

// listen takes what the page sends, until the socket ends. Its context is not
// that of the rest: to give up reading would break the socket, before the page
// has been told why.
func listen(socket, rest context.Context, page *peer, v *viewer) {
	typed := make(chan []byte, typedAhead)
	typing, giveUp := context.WithCancel(socket)
	v.tasks.Go(func() {
		defer giveUp()
		for b := range typed {
			v.typed(typing, b)
		}
	})
	defer func() {
		close(typed)
		time.AfterFunc(lastKeys, giveUp)
	}()
	for {
		kind, b, err := page.ws.Read(socket)
		if err != nil {
			return
		}
		if rows, cols, ok := resize(b); ok && kind == websocket.MessageText {
			v.resize(rows, cols)
			continue
		}
		if rest.Err() != nil {
			continue // it is being told why
		}
		select {
		case typed <- b:
		case <-rest.Done():
		}
	}
}

// typedAhead is how many messages may wait for a program that does not read,
// while the page is still asked whether it is there.
const typedAhead = 64

// lastKeys is how long a program may take to read what a page that has gone
// had typed.
const lastKeys = time.Second

// resizeMessage is the one text that is not typed. Anything that is only like
// it may have been pasted.
var resizeMessage = regexp.MustCompile(`^\{"resize":\{"cols":([1-9][0-9]{0,4}),"rows":([1-9][0-9]{0,4})\}\}$`)

// maxSide is what a terminal can be at most. A page may have more.
const maxSide = 1000

func resize(b []byte) (rows, cols uint16, ok bool) {
	if len(b) == 0 || b[0] != '{' {
		return 0, 0, false
	}
	m := resizeMessage.FindSubmatch(b)
	if m == nil {
		return 0, 0, false
	}
	c, errCols := strconv.ParseUint(string(m[1]), 10, 16)
	r, errRows := strconv.ParseUint(string(m[2]), 10, 16)
	if errors.Join(errCols, errRows) != nil {
		return 0, 0, false
	}
	return uint16(min(r, maxSide)), uint16(min(c, maxSide)), true
}

// shell starts the best that the image has. Zsh asks a user who has no
// settings many questions before the first prompt, unless there is the file.
const shell = `for shell in zsh bash sh; do
	command -v $shell >/dev/null 2>&1 || continue
	[ $shell != zsh ] || true 2>/dev/null >>~/.zshrc
	exec $shell -l
done
exec /bin/sh -l`

const closedTerminal = "terminal closed"

// shellEnd says why a shell is over.
func shellEnd(err error) string {
	if e, ok := errors.AsType[*sandbox.ExitError](err); ok {
		if e.Err == nil || e.Cause == sandbox.CauseExit || e.Cause == sandbox.CauseSignal || e.Cause == sandbox.CauseKilled {
			return closedTerminal
		}
		err = e.Err
	}
	if err == nil {
		return closedTerminal
	}
	p, _ := problem.Of(err)
	return p.Detail
}
