package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// A gate refuses what a balance does not cover, before it is had, and keeps
// what it costs until it has been charged.
type gate struct {
	ledger Ledger
	fees   Fees
	run    time.Duration // how long a run can take
}

// starting is how long a sandbox may take to start, with all that is put into
// it, while its fee is reserved.
const starting = 10 * time.Minute

// reserve keeps cents for what is about to be had. done gives back what has
// not been charged by then.
func (g *gate) reserve(ctx context.Context, key, org string, cents int64, most time.Duration) (done func(), err error) {
	if g.ledger == nil || !g.fees.Prepaid || cents == 0 {
		return func() {}, nil
	}
	err = g.ledger.Reserve(ctx, Reservation{Key: key, Org: org, Amount: cents * Cent, Until: time.Now().Add(most)})
	if errors.Is(err, ErrBalance) {
		return nil, problem.New(problem.PaymentRequired, fmt.Sprintf("the balance does not cover the fee of %d cents", cents))
	}
	if err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTimeout)
		defer cancel()
		g.ledger.Release(ctx, key) //nolint:errcheck // it lapses
	}, nil
}

// mayRun is asked before a run of the code interpreter, which is charged by
// that key.
func (g *gate) mayRun(ctx context.Context, org, key string) (done func(), err error) {
	return g.reserve(ctx, key, org, g.fees.Run, g.run+starting)
}

// mayLease is asked before a sandbox starts; its Meter charges it as soon as it
// has. An hour that costs something needs something to pay it from.
func (g *gate) mayLease(ctx context.Context, org, class string) (done func(), err error) {
	class = cmp.Or(class, sandbox.ClassExec)
	cents := ofClass(g.fees.Lease, class)
	if cents == 0 && ofClass(g.fees.Hour, class) > 0 {
		cents = 1
	}
	return g.reserve(ctx, "start:"+randomText(), org, cents, starting)
}

// Gated has the ledger asked before each lease, for doors other than this
// server's own operations, which ask by themselves: what Interpret stands on,
// for one. Of what it returns only Lease and Attach are for use, and the
// handles that they give have all abilities.
func Gated(l Ledger, fees Fees, sandboxes func(sandbox.Owner) Sandboxes) func(sandbox.Owner) Sandboxes {
	g := &gate{ledger: l, fees: fees}
	return func(o sandbox.Owner) Sandboxes { return &gated{sandboxes(o), g, o.Org} }
}

type gated struct {
	Sandboxes
	gate *gate
	org  string
}

// Lease leases what is covered. To come back to a sandbox that runs costs
// nothing more.
func (g *gated) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	class, running := spec.Class, false
	if spec.ID != "" {
		if info, err := g.Info(ctx, spec.ID); err == nil {
			class, running = info.Class, info.Status == sandbox.StatusRunning
		}
	}
	if !running {
		done, err := g.gate.mayLease(ctx, g.org, class)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	return g.Sandboxes.Lease(ctx, spec)
}
