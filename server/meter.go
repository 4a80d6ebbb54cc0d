package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

func randomText() string { return rand.Text() }

// Meter returns the sandbox.Config.Events that keeps a ledger: whoever leased
// and by whatever door, it is charged here, once, however often an event is
// told. What cannot be recorded is logged.
func Meter(l Ledger, fees Fees, log *slog.Logger) func(sandbox.Event) {
	return func(e sandbox.Event) {
		ctx, cancel := context.WithTimeout(context.Background(), chargeTimeout) //nolint:forbidigo // an event has no caller
		defer cancel()
		if err := meter(ctx, l, &fees, &e); err != nil {
			log.Error("an event was not metered", "id", e.ID, "generation", e.Generation, "kind", e.Kind, "error", err)
		}
	}
}

func meter(ctx context.Context, l Ledger, fees *Fees, e *sandbox.Event) error {
	owner := e.Info.Owner
	if owner.Org == "" {
		return nil // the server's own, by which it looks whether it can serve
	}
	switch e.Kind {
	case sandbox.EventRunning:
		// A lease costs once it runs: one that did not start is not charged.
		if err := l.Charge(ctx, Entry{
			Key: fmt.Sprintf("lease:%s:%d", e.ID, e.Generation), Org: owner.Org, Actor: owner.Actor, Kind: "lease",
			Sandbox: e.ID, Class: e.Info.Class, Amount: ofClass(fees.Lease, e.Info.Class) * Cent, Time: e.Time,
		}); err != nil {
			return err
		}
		return l.Open(ctx, span(fees, e))
	case sandbox.EventResumed:
		return l.Open(ctx, span(fees, e))
	case sandbox.EventPaused, sandbox.EventLost, sandbox.EventEnded:
		return l.Settle(ctx, e.ID, e.Generation, endOf(e))
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

// endOf is when the engine's time ended: a sandbox whose lease ran out while
// nobody served had no engine from then on, whenever that is noticed. When a
// machine went down nobody knows: what has been charged until then is all.
func endOf(e *sandbox.Event) time.Time {
	if e.Reason == sandbox.ReasonReboot {
		return time.Time{}
	}
	if expires := e.Info.Expires; !expires.IsZero() && expires.Before(e.Time) {
		return expires
	}
	return e.Time
}
