package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// screenAddress is where a desktop's screen is served inside.
const screenAddress = "localhost:5900"

// screenSocket carries the screen's own protocol, byte by byte.
func (s *server) screenSocket(w http.ResponseWriter, r *http.Request) {
	err := upgradable(r)
	var p principal
	if err == nil {
		p, err = s.presented(r, screenTicket)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	page, err := meet(w, r, "binary") // which some clients want to be told
	if err != nil {
		return
	}
	ctx, end := s.lastingSocket(r, p)
	defer end()
	screen, err := s.dialScreen(ctx, p, r.PathValue("id"))
	if err != nil {
		page.end(dialReason(err))
		return
	}
	page.end(carry(ctx, page, screen))
}

func dialReason(err error) string {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "Connection refused: nothing in the sandbox serves a screen"
	}
	p, _ := problem.Of(err)
	return p.Detail
}

const (
	// startingFor is how long after its start a sandbox's screen may still be
	// on its way, screenWait how long a page waits for one, and screenPoll
	// how often it looks.
	startingFor = time.Minute
	screenWait  = 15 * time.Second
	screenPoll  = 50 * time.Millisecond
)

// dialScreen connects to the screen. That of a young sandbox may not be there
// yet.
func (s *server) dialScreen(ctx context.Context, p principal, id string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, screenWait)
	defer cancel()
	held := s.cfg.Sandboxes(p.scope())
	tick := time.NewTicker(screenPoll)
	defer tick.Stop()
	for {
		conn, err := sandbox.Handle(held, id).DialContext(ctx, "tcp", screenAddress)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return conn, err
		}
		info, infoErr := held.Info(ctx, id)
		if infoErr != nil || info.Class != sandbox.ClassDesktop || time.Since(info.Created) > startingFor {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

const closedScreen = "screen closed"

// carry copies both ways until one end goes or ctx ends, and returns why.
func carry(ctx context.Context, page *peer, screen net.Conn) string {
	socket := context.WithoutCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer screen.Close()
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	tasks.Go(func() {
		defer screen.Close() // a screen that takes nothing holds up who would notice that the page is gone
		page.watch(run)
	})
	tasks.Go(func() {
		defer screen.Close()
		for {
			_, message, err := page.ws.Reader(socket)
			if err == nil {
				_, err = io.Copy(onlyWriter{screen}, message)
			}
			if err != nil {
				return
			}
		}
	})
	buf := make([]byte, copyChunk)
	for {
		n, err := screen.Read(buf)
		if n > 0 && page.send(ctx, buf[:n]) != nil {
			return closedScreen
		}
		if err != nil {
			why := closedScreen
			if ctx.Err() != nil {
				why = context.Cause(ctx).Error()
			}
			page.end(why) // which ends the reading from it
			return why
		}
	}
}
