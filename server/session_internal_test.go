package server

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// endless are sandboxes whose commands run until they are called off.
type endless struct{ Sandboxes }

func (endless) Exec(ctx context.Context, _ string, _ *sandbox.Process) (sandbox.ExitStatus, error) {
	<-ctx.Done()
	return sandbox.ExitStatus{}, ctx.Err()
}

// TestSessionsAreBoundedAtOnce has more come than there may be, who all find
// room for one before any of them has it.
func TestSessionsAreBoundedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		limits := Limits{OrgRuns: maxSessions + 4}
		limits.fill()
		s := &server{shells: newSlots(limits), sessions: newSessions()}
		s.cfg.Sandboxes = func(sandbox.Owner) Sandboxes { return endless{} }
		var busy []func()
		for range limits.OrgRuns {
			giveBack, err := s.shells.take(t.Context(), "acme")
			is.NoErr(err)
			busy = append(busy, giveBack)
		}
		opened := make(chan *session, limits.OrgRuns)
		for i := range limits.OrgRuns {
			go func() {
				made, _ := s.sessions.open(context.Background(), s, principal{Org: "acme"}, "x", "s"+strconv.Itoa(i))
				opened <- made
			}()
		}
		synctest.Wait() // all wait for a slot
		for _, giveBack := range busy {
			giveBack()
		}
		n := 0
		for range limits.OrgRuns {
			if made := <-opened; made != nil {
				n++
				defer made.cancel()
			}
		}
		is.Equal(n, maxSessions)
	})
}
