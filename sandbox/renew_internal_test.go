//go:build linux

package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/client"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A fuseInit is an init as far as the end of a lease goes: it hangs up when
// the time that it was told last is reached, and answers what it has taken.
type fuseInit struct {
	conn  net.Conn
	ahead time.Duration // of its clock
	mu    sync.Mutex
	end   time.Time
}

func (f *fuseInit) serve() {
	defer f.conn.Close()
	in := wire.NewReader(f.conn)
	for {
		kind, payload, err := in.Next()
		if err != nil || kind != wire.KindRequest {
			return
		}
		var r wire.Request
		if r.Decode(payload) != nil {
			return
		}
		f.mu.Lock()
		f.end = r.Deadline.Add(-f.ahead)
		f.mu.Unlock()
		time.AfterFunc(time.Until(r.Deadline)-f.ahead, f.reach)
		if _, err := f.conn.Write(wire.AppendFrame(nil, wire.KindOK, nil)); err != nil {
			return
		}
	}
}

func (f *fuseInit) reach() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(f.end) {
		f.conn.Close()
	}
}

// leaseOnPaper is a Runtime and a sandbox in it that runs, as far as anybody
// can tell, until end, by a clock that is so far ahead. It is nil if that has
// passed meanwhile.
func leaseOnPaper(t *testing.T, r *Runtime, end time.Time, ahead time.Duration) *instance {
	s := r.instance(row{Info: Info{ID: newID(), Class: ClassExec, Status: StatusRunning, Created: time.Now(), Expires: end}, TTL: time.Hour, Fixed: true})
	l := s.newLife()
	l.client.Dial = func(context.Context) (net.Conn, error) {
		host, guest := net.Pipe()
		go (&fuseInit{conn: guest, ahead: ahead}).serve()
		return host, nil
	}
	if s.openWatch(t.Context(), l) != nil || os.Mkdir(s.dir, 0o700) != nil {
		return nil
	}
	s.life = l
	r.mu.Lock()
	r.sandboxes[s.id] = s
	r.mu.Unlock()
	r.tasks.Go(func() { s.watchOver(l) })
	return s
}

func runtimeOnPaper(t *testing.T) *Runtime {
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "sandboxes"), 0o700), os.Mkdir(filepath.Join(root, "engine"), 0o700)); err != nil {
		t.Fatal(err)
	}
	r := &Runtime{
		root: root, clocks: testClocks, log: slog.New(slog.DiscardHandler), step: func(string) {},
		engine: &runsc{root: filepath.Join(root, "engine")}, classes: map[string]Class{},
		sandboxes: map[string]*instance{}, ended: map[string]Owner{},
	}
	r.ctx, r.close = context.WithCancelCause(t.Context())
	return r
}

// TestClockAhead has an init whose clock is a little ahead end a sandbox: the
// lease is over, and the sandbox not lost.
func TestClockAhead(t *testing.T) {
	is := is.New(t)
	r := runtimeOnPaper(t)
	s := leaseOnPaper(t, r, time.Now().Add(time.Second), 50*time.Millisecond)
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	<-l.gone
	is.Equal(l.why, ErrEnded)
	<-s.removed
	r.tasks.Wait()
}

// TestRenewalsThatRaceTheEnd renews leases in the moment when they end. Each
// renewal either succeeds, and the sandbox lives on until its new end, or
// fails, and the sandbox ends.
func TestRenewalsThatRaceTheEnd(t *testing.T) {
	is := is.New(t)
	r := runtimeOnPaper(t)
	const races, atOnce = 10_000, 16
	var renewed, ended int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for range races / atOnce {
				won, err := race(t, r)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if won {
					renewed++
				} else {
					ended++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Log(renewed, "renewed,", ended, "ended")
	is.True(renewed > races/20 && ended > races/20) // it was a race
	r.tasks.Wait()
	is.Equal(len(r.all()), 0)
}

func race(t *testing.T, r *Runtime) (renewed bool, err error) {
	const span = 4 * time.Millisecond
	var s *instance
	for s == nil {
		s = leaseOnPaper(t, r, time.Now().Add(span), 0)
	}
	<-time.After(span - time.Duration(rand.Int64N(int64(2*time.Millisecond))))
	end, err := s.renew(t.Context(), time.Hour)
	if err != nil {
		if !errors.Is(err, ErrEnded) && !errors.Is(err, client.ErrLost) {
			return false, err
		}
		<-s.removed // it is over, and ends
		return false, nil
	}
	// Whatever was about to end it has had its time to do so.
	<-time.After(span)
	s.mu.Lock()
	leaving, now := s.leaving, s.row.Info
	s.mu.Unlock()
	if leaving != nil || now.Status != StatusRunning || !now.Expires.Equal(end) {
		return true, errors.New("renewed, and ended all the same")
	}
	if _, err := os.Stat(s.dir); err != nil {
		return true, err
	}
	// It is not immortal either: its init has the new end.
	return true, s.end(ReasonEnd, false)
}
