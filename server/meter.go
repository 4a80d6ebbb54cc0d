package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

func randomText() string { return rand.Text() }

// A Meter keeps a ledger by what a Runtime tells: whoever leased and by
// whatever door, it is charged here, once, however often an event is told.
type Meter struct {
	ledger Ledger
	fees   Fees
	log    *slog.Logger
	began  time.Time
	opened atomic.Bool
}

// NewMeter returns a Meter for the Runtime that is to be opened next. What
// cannot be recorded is logged.
func NewMeter(l Ledger, fees Fees, log *slog.Logger) *Meter {
	return &Meter{ledger: l, fees: fees, log: log, began: time.Now()}
}

// Event is the sandbox.Config.Events.
func (m *Meter) Event(e sandbox.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), chargeTimeout) //nolint:forbidigo // an event has no caller
	defer cancel()
	if err := m.record(ctx, &e); err != nil {
		m.log.Error("an event was not metered", "id", e.ID, "generation", e.Generation, "kind", e.Kind, "error", err)
	}
}

// Opened says that the Runtime has been opened.
func (m *Meter) Opened() { m.opened.Store(true) }

func (m *Meter) record(ctx context.Context, e *sandbox.Event) error {
	l := m.ledger
	owner := e.Info.Owner
	if owner.Org == "" {
		return nil // the server's own, by which it looks whether it can serve
	}
	switch e.Kind {
	case sandbox.EventRunning:
		// A lease costs once it runs: one that did not start is not charged.
		if err := l.Charge(ctx, Entry{
			Key: fmt.Sprintf("lease:%s:%d", e.ID, e.Generation), Org: owner.Org, Actor: owner.Actor, Kind: "lease",
			Sandbox: e.ID, Class: e.Info.Class, Amount: ofClass(m.fees.Lease, e.Info.Class) * Cent, Time: e.Time,
		}); err != nil {
			return err
		}
		return l.Open(ctx, span(&m.fees, e))
	case sandbox.EventResumed:
		return l.Open(ctx, span(&m.fees, e))
	case sandbox.EventPaused, sandbox.EventLost, sandbox.EventEnded:
		return l.Settle(ctx, e.ID, e.Generation, m.endOf(e))
	case sandbox.EventLeased:
	}
	return nil
}

func span(fees *Fees, e *sandbox.Event) Span {
	owner := e.Info.Owner
	return Span{
		Sandbox: e.ID, Generation: e.Generation, Org: owner.Org, Actor: owner.Actor, Class: e.Info.Class,
		Hour: ofClass(fees.Hour, e.Info.Class) * Cent, Start: e.Time,
	}
}

// endOf is when the engine's time ended. A sandbox whose lease ran out while
// nobody served had no engine from then on, whenever that is noticed. What
// else a Runtime finds when it opens, or finishes then, ended while nobody
// served, and nobody knows when: what has been charged until then is all.
func (m *Meter) endOf(e *sandbox.Event) time.Time {
	if expires := e.Info.Expires; !expires.IsZero() && expires.Before(e.Time) {
		return expires
	}
	if !m.opened.Load() && !e.Time.Before(m.began) {
		return time.Time{}
	}
	return e.Time
}
