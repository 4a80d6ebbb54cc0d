package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A Ledger keeps what is owed. It is safe for concurrent use. Amounts are
// millionths of a cent, so that a second of a cheap hour is not lost.
type Ledger interface {
	// Balance is what an organisation has been credited less what it was
	// charged.
	Balance(ctx context.Context, org string) (int64, error)
	// Charge records an entry, once: another with its Key changes nothing.
	Charge(ctx context.Context, e Entry) error
	// Open begins a span, once: another of its sandbox and generation
	// changes nothing.
	Open(ctx context.Context, s Span) error
	// Settle charges for the open spans of a sandbox that are older than
	// generation, up to at, and closes them. A span that is closed stays.
	Settle(ctx context.Context, id string, generation uint64, at time.Time) error
	// Advance charges for the open spans of these sandboxes up to at, and
	// leaves them open.
	Advance(ctx context.Context, running []string, at time.Time) error
}

// Cent is a cent, in the Ledger's unit.
const Cent = 1_000_000

// An Entry is a charge.
type Entry struct {
	Key     string
	Org     string
	Actor   string
	Kind    string // run, lease or runtime
	Sandbox string
	Class   string
	Amount  int64
	Time    time.Time
}

// A Span is time during which a sandbox has an engine. It is billed by the
// second.
type Span struct {
	Sandbox    string
	Generation uint64 // of the event that began it
	Org, Actor string
	Class      string
	Hour       int64 // what an hour costs
	Start      time.Time
}

// Fees are what things cost, in cents. The zero Fees cost nothing.
type Fees struct {
	// Run is of a run of the code interpreter.
	Run int64
	// Lease is of a lease, and Hour of an hour in which a sandbox has an
	// engine, both by class; "" is every class that is not named.
	Lease, Hour map[string]int64
	// Prepaid refuses what the balance does not cover; else it is recorded,
	// to be billed later.
	Prepaid bool
}

func (f *Fees) check() error {
	if f.Run < 0 {
		return errors.New("server: a negative fee")
	}
	for _, table := range []map[string]int64{f.Lease, f.Hour} {
		for class, cents := range table {
			if cents < 0 {
				return fmt.Errorf("server: class %q: a negative fee", class)
			}
		}
	}
	return nil
}

func ofClass(table map[string]int64, class string) int64 {
	if cents, ok := table[class]; ok {
		return cents
	}
	return table[""]
}

// chargeRun records a run that has been had, also if its caller has gone.
func (s *server) chargeRun(ctx context.Context, p principal, session string) error {
	if s.cfg.Ledger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTimeout)
	defer cancel()
	return s.cfg.Ledger.Charge(ctx, Entry{
		Key: "run:" + strings.ToLower(randomText()), Org: p.Org, Actor: p.User, Kind: "run",
		Sandbox: session, Class: sandbox.ClassExec, Amount: s.cfg.Fees.Run * Cent, Time: time.Now(),
	})
}

// chargeTimeout bounds a write to the ledger.
const chargeTimeout = 10 * time.Second
