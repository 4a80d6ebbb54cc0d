package mcp

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type listenerKey struct{}

// Listener is who listens to what a command says, of a request that is a
// tool's call; nil is nobody. It never blocks and never fails.
func Listener(ctx context.Context) io.Writer {
	w, _ := ctx.Value(listenerKey{}).(io.Writer) //nolint:errcheck // nobody is nil
	return w
}

const (
	// pause lies between two notifications of one call.
	pause = 100 * time.Millisecond
	// maxWords bounds what one of them says; of more it has the end.
	maxWords = 4 << 10
)

// A progress tells the caller what a command says, as it says it, at a pace
// that the caller can take.
type progress struct {
	session *sdk.ServerSession
	token   any
	more    chan struct{} // has one in it when there is something to tell

	mu    sync.Mutex
	total int64
	tail  []byte
	cut   bool
}

// follow returns the context by which a command is listened to, if the caller
// wants that, and what ends it: when that returns all has been told.
func follow(ctx context.Context, req *sdk.CallToolRequest) (context.Context, func()) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return ctx, func() {}
	}
	p := &progress{session: req.Session, token: token, more: make(chan struct{}, 1)}
	listener := io.Writer(p)
	if also := Listener(ctx); also != nil {
		listener = io.MultiWriter(p, also)
	}
	telling, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { p.run(telling) })
	return context.WithValue(ctx, listenerKey{}, listener), func() {
		stop()
		done.Wait()
		p.tell(ctx)
	}
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.total += int64(len(b))
	p.tail = append(p.tail, b[max(0, len(b)-maxWords):]...)
	if extra := len(p.tail) - maxWords; extra > 0 || len(b) > maxWords {
		p.tail = p.tail[max(0, extra):]
		p.cut = true
	}
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (p *progress) run(ctx context.Context) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.more:
			p.tell(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell tells what has not been told, if there is something.
func (p *progress) tell(ctx context.Context) {
	p.mu.Lock()
	whole := wholeRunes(p.tail)
	message, total := string(whole), p.total
	if p.cut {
		message = "…" + message
	}
	p.tail, p.cut = append([]byte(nil), p.tail[len(whole):]...), false
	p.mu.Unlock()
	if message == "" {
		return
	}
	// A caller that is not there any more is noticed elsewhere.
	p.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ //nolint:errcheck // as above
		ProgressToken: p.token, Progress: float64(total), Message: strings.ToValidUTF8(message, "\uFFFD"),
	})
}

// A record is what a command has said, the two ends of it.
type record struct {
	mu         sync.Mutex
	head, tail []byte
	left       int // out between them
}

// recorded returns a context by which it is recorded what a command says.
func recorded(ctx context.Context) (context.Context, *record) {
	r := &record{}
	return context.WithValue(ctx, listenerKey{}, io.Writer(r)), r
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(b), maxText/2-len(r.head))
	r.head = append(r.head, b[:n]...)
	r.tail = append(r.tail, b[n:]...)
	if len(r.tail) > 2*maxText { // seldom, as all that is kept moves
		r.trim()
	}
	return len(b), nil
}

func (r *record) trim() {
	extra := max(0, len(r.tail)-maxText/2)
	r.tail = append(r.tail[:0], r.tail[extra:]...)
	r.left += extra
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trim()
	if r.left == 0 {
		return string(r.head) + string(r.tail)
	}
	return fmt.Sprintf("%s\n[%d bytes are left out here%s]\n%s", r.head, r.left, inFile, r.tail)
}
