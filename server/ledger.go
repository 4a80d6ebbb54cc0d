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
	// Reserve keeps an amount for a charge that is to come, if the balance
	// covers it beside all that is reserved already; else it is ErrBalance. Of
	// several at once as many succeed as are covered.
	Reserve(ctx context.Context, r Reservation) error
	// Release ends a reservation. That there is none is no error.
	Release(ctx context.Context, key string) error
	// Charge records an entry, once: another with its Key changes nothing. It
	// ends the reservation of that Key.
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

// ErrBalance says that a balance does not cover what is to be reserved.
var ErrBalance = errors.New("the balance does not cover it")

// A Reservation is an amount that is not to be spent twice. It lapses with its
// time: a server that has died holds nothing for ever.
type Reservation struct {
	Key    string // of the Entry that is to come, if it is known
	Org    string
	Amount int64
	Until  time.Time
}

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

// newRun is the key of a run's entry.
func newRun() string { return "run:" + strings.ToLower(randomText()) }

// chargeRun records a run that has been had, also if its caller has gone.
func (s *server) chargeRun(ctx context.Context, p principal, run, session string) error {
	if s.cfg.Ledger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTimeout)
	defer cancel()
	return s.cfg.Ledger.Charge(ctx, Entry{
		Key: run, Org: p.Org, Actor: p.User, Kind: "run",
		Sandbox: session, Class: sandbox.ClassExec, Amount: s.cfg.Fees.Run * Cent, Time: time.Now(),
	})
}

// chargeTimeout bounds a write to the ledger.
const chargeTimeout = 10 * time.Second
