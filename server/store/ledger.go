package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/hanzoai/sandbox/server"
)

// Balance is what an organisation has been credited less what it was charged.
func (s *Store) Balance(ctx context.Context, org string) (int64, error) {
	var amount int64
	err := s.db.QueryRowContext(ctx, "SELECT amount FROM balances WHERE org = ?", org).Scan(&amount)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return amount, err
}

// Reserve implements server.Ledger.
func (s *Store) Reserve(ctx context.Context, r server.Reservation) error {
	return s.do(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM reservations WHERE until <= ?", time.Now().Unix()); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, `INSERT INTO reservations (key, org, amount, until) SELECT ?1, ?2, ?3, ?4
			WHERE COALESCE((SELECT amount FROM balances WHERE org = ?2), 0) -
				COALESCE((SELECT SUM(amount) FROM reservations WHERE org = ?2), 0) >= ?3`, r.Key, r.Org, r.Amount, r.Until.Unix())
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, server.ErrBalance)
		}
		return nil
	})
}

// Release implements server.Ledger.
func (s *Store) Release(ctx context.Context, key string) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM reservations WHERE key = ?", key)
	return err
}

// Charge implements server.Ledger.
func (s *Store) Charge(ctx context.Context, e server.Entry) error {
	return s.do(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM reservations WHERE key = ?", e.Key); err != nil {
			return err
		}
		return charge(ctx, tx, &e, 0)
	})
}

// charge adds an entry, and takes it from the balance if it is new.
func charge(ctx context.Context, tx *sql.Tx, e *server.Entry, seconds int64) error {
	result, err := tx.ExecContext(ctx, `INSERT INTO entries (key, org, actor, kind, sandbox, class, seconds, amount, time)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`,
		e.Key, e.Org, e.Actor, e.Kind, e.Sandbox, e.Class, seconds, e.Amount, e.Time.Unix())
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 || e.Amount == 0 {
		return err
	}
	return add(ctx, tx, e.Org, -e.Amount)
}

func add(ctx context.Context, tx *sql.Tx, org string, amount int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO balances (org, amount) VALUES (?, ?)
		ON CONFLICT (org) DO UPDATE SET amount = amount + excluded.amount`, org, amount)
	return err
}

// Credit adds cents to an organisation's balance. Another credit of the same
// key changes nothing.
func (s *Store) Credit(ctx context.Context, key, org string, cents int64) error {
	return s.pay(ctx, "credit", key, org, cents, -1)
}

// Debit takes cents back that were credited by mistake, also such as have been
// spent: the balance may fall below nothing. It is an entry of its own, and
// another debit of the same key changes nothing.
func (s *Store) Debit(ctx context.Context, key, org string, cents int64) error {
	return s.pay(ctx, "debit", key, org, cents, 1)
}

func (s *Store) pay(ctx context.Context, kind, key, org string, cents, sign int64) error {
	if org == "" {
		return fmt.Errorf("a %s is an organisation's: name one", kind)
	}
	if err := checkName("organisation", org); err != nil {
		return err
	}
	if cents <= 0 || cents > math.MaxInt64/server.Cent/2 {
		return fmt.Errorf("a %s of %d cents: want from 1 to %d; what was credited is taken back by a debit", kind, cents, math.MaxInt64/server.Cent/2)
	}
	e := server.Entry{Key: kind + ":" + key, Org: org, Kind: kind, Amount: sign * cents * server.Cent, Time: time.Now()}
	return s.Charge(ctx, e)
}

// Open implements server.Ledger.
func (s *Store) Open(ctx context.Context, span server.Span) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO spans (sandbox, generation, org, actor, class, hour, watermark)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sandbox, generation) DO NOTHING`,
		span.Sandbox, int64(span.Generation), span.Org, span.Actor, span.Class, span.Hour, span.Start.Unix())
	return err
}

// Settle implements server.Ledger.
func (s *Store) Settle(ctx context.Context, id string, generation uint64, at time.Time) error {
	return s.do(ctx, func(tx *sql.Tx) error {
		if err := advance(ctx, tx, at, "sandbox = ? AND generation < ? AND closed = 0", id, int64(generation)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE spans SET closed = 1 WHERE sandbox = ? AND generation < ? AND closed = 0", id, int64(generation))
		return err
	})
}

// Keep closes the open spans of sandboxes that are not among those that run,
// without charging for more: of what became of them nobody will tell, as when
// their folder was removed. What was reserved is free again, as what it was for
// has died. It is for a server's start, when it is known what runs and nothing
// is leased yet.
func (s *Store) Keep(ctx context.Context, running []string) error {
	ids, err := array(running)
	if err != nil {
		return err
	}
	return s.do(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM reservations"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE spans SET closed = 1 WHERE closed = 0 AND sandbox NOT IN (SELECT value FROM json_each(?))", ids)
		return err
	})
}

// array is a list for json_each.
func array(list []string) (string, error) {
	if list == nil {
		return "[]", nil
	}
	b, err := json.Marshal(list)
	return string(b), err
}

// Advance implements server.Ledger.
func (s *Store) Advance(ctx context.Context, running []string, at time.Time) error {
	ids, err := array(running)
	if err != nil {
		return err
	}
	return s.do(ctx, func(tx *sql.Tx) error {
		return advance(ctx, tx, at, "closed = 0 AND sandbox IN (SELECT value FROM json_each(?))", ids)
	})
}

// advance charges for the spans from their watermarks to at, and moves the
// watermarks in the same transaction: no second is charged twice, nor left
// out, whenever the program dies.
func advance(ctx context.Context, tx *sql.Tx, at time.Time, where string, args ...any) error {
	rows, err := tx.QueryContext(ctx, "SELECT sandbox, generation, org, actor, class, hour, watermark FROM spans WHERE "+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var spans []openSpan
	for rows.Next() {
		var o openSpan
		if err := rows.Scan(&o.Sandbox, &o.Generation, &o.Org, &o.Actor, &o.Class, &o.Hour, &o.watermark); err != nil {
			return err
		}
		spans = append(spans, o)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for i := range spans {
		if err := spans[i].advance(ctx, tx, at); err != nil {
			return err
		}
	}
	return nil
}

type openSpan struct {
	server.Span
	watermark int64
}

func (o *openSpan) advance(ctx context.Context, tx *sql.Tx, at time.Time) error {
	seconds := at.Unix() - o.watermark
	if seconds <= 0 {
		return nil
	}
	e := server.Entry{
		Key: fmt.Sprintf("runtime:%s:%d:%d", o.Sandbox, o.Generation, o.watermark), Org: o.Org, Actor: o.Actor,
		Kind: "runtime", Sandbox: o.Sandbox, Class: o.Class, Amount: forSeconds(o.Hour, seconds), Time: at,
	}
	if err := charge(ctx, tx, &e, seconds); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE spans SET watermark = ? WHERE sandbox = ? AND generation = ?", at.Unix(), o.Sandbox, int64(o.Generation))
	return err
}

// forSeconds is what seconds cost at a price an hour.
func forSeconds(hour, seconds int64) int64 {
	hi, lo := bits.Mul64(uint64(hour), uint64(seconds))
	if hi >= 3600 {
		return math.MaxInt64 / 2
	}
	amount, _ := bits.Div64(hi, lo, 3600)
	return int64(min(amount, math.MaxInt64/2))
}

// A Usage is what an organisation had of a kind.
type Usage struct {
	Org, Kind, Class string
	Count            int64
	Seconds          int64
	Amount           int64
}

// Usage sums up what was had since a time; an org of "" is all of them.
func (s *Store) Usage(ctx context.Context, org string, since time.Time) ([]Usage, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT org, kind, class, COUNT(*), SUM(seconds), SUM(amount) FROM entries
		WHERE (? = '' OR org = ?) AND time >= ? AND kind NOT IN ('credit', 'debit') GROUP BY org, kind, class ORDER BY org, kind, class`, org, org, since.Unix())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Usage
	for rows.Next() {
		var u Usage
		if err := rows.Scan(&u.Org, &u.Kind, &u.Class, &u.Count, &u.Seconds, &u.Amount); err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, rows.Err()
}
