package server

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// A gate refuses what a balance does not cover, before it is had.
type gate struct {
	ledger Ledger
	fees   Fees
}

func (g *gate) covers(ctx context.Context, org string, cents int64) error {
	if g.ledger == nil || !g.fees.Prepaid || cents == 0 {
		return nil
	}
	balance, err := g.ledger.Balance(ctx, org)
	if err != nil {
		return err
	}
	if balance < cents*Cent {
		return problem.New(problem.PaymentRequired, fmt.Sprintf("the balance does not cover the fee of %d cents", cents))
	}
	return nil
}

// mayRun is asked before a run of the code interpreter.
func (g *gate) mayRun(ctx context.Context, org string) error { return g.covers(ctx, org, g.fees.Run) }

// mayLease is asked before a sandbox starts. An hour that costs something
// needs something to pay it from.
func (g *gate) mayLease(ctx context.Context, org, class string) error {
	class = cmp.Or(class, sandbox.ClassExec)
	cents := ofClass(g.fees.Lease, class)
	if cents == 0 && ofClass(g.fees.Hour, class) > 0 {
		cents = 1
	}
	return g.covers(ctx, org, cents)
}

// Gated has the ledger asked before each lease, for doors other than this
// server's own operations, which ask by themselves: what Interpret stands on,
// for one. Of what it returns only Lease and Attach are for use, and the
// handles that they give have all abilities.
func Gated(l Ledger, fees Fees, sandboxes func(sandbox.Owner) Sandboxes) func(sandbox.Owner) Sandboxes {
	g := &gate{l, fees}
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
		if err := g.gate.mayLease(ctx, g.org, class); err != nil {
			return nil, err
		}
	}
	return g.Sandboxes.Lease(ctx, spec)
}
