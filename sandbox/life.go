//go:build linux

package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/guest/client"
)

// A life is one engine of a sandbox, from its start to its end. A sandbox that
// was paused and resumed has had several.
type life struct {
	client *client.Client
	watch  *client.Watch

	uses, watched int // what is under way; guarded by the instance's mu

	ctx    context.Context //nolint:containedctx // ends what must be over before the engine is
	finish context.CancelCauseFunc
	writes sync.RWMutex // held by each file that is under way into the sandbox

	gone chan struct{} // closed when the engine is no more
	why  error         // ErrEnded, ErrLost, errDetached or a conflict, of a pause; valid once gone is closed
}

func (s *instance) newLife() *life {
	socket := s.initSocket()
	ctx, finish := context.WithCancelCause(context.WithoutCancel(s.runtime.ctx))
	return &life{
		ctx: ctx, finish: finish,
		gone: make(chan struct{}),
		client: &client.Client{Bounds: s.row.Limits.bounds(), Dial: func(ctx context.Context) (net.Conn, error) {
			return dialSocket(ctx, socket)
		}},
	}
}

func (l *life) watchedNow() bool { return l != nil && l.watched > 0 }

// writing returns a context that ends with ctx, and when the life is about to
// end: then the init has the time to clean up what has come only in part.
func (l *life) writing(ctx context.Context) (context.Context, func()) {
	l.writes.RLock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
		l.writes.RUnlock()
	}
}

// writesTimeout bounds the wait for that.
const writesTimeout = time.Second

// endWrites cuts short the files that are under way, because of why.
func (l *life) endWrites(why error) {
	l.finish(why)
	done := make(chan struct{})
	go func() {
		l.writes.Lock()
		l.writes.Unlock() //nolint:staticcheck // to have waited is all
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(writesTimeout): // the end of the engine will end them
	}
}

// fateWait is how long a broken connection waits to learn what broke it. The
// watch breaks at the same moment.
const fateWait = time.Second

// fate says what a lost connection means: that the sandbox has ended, was
// paused, or is lost. Any other error it returns as it is.
func (l *life) fate(err error) error {
	if !errors.Is(err, client.ErrLost) {
		return err
	}
	select {
	case <-l.gone:
		return l.why
	case <-time.After(fateWait):
		return err
	}
}

// dialSocket connects to a unix socket, also one whose path is too long for an
// address.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		path = "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path)
	}
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", path)
		if !errors.Is(err, unix.EAGAIN) {
			return c, err
		}
		// Its backlog is full: wait for the init to accept.
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}
