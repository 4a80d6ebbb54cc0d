package store_test

import (
	"database/sql"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/server"
	"github.com/hanzoai/sandbox/server/store"
)

func open(t *testing.T, root string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestKeys(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	s, other := open(t, root), open(t, root) // as a command beside a server
	secret := server.NewKey()
	made, err := other.AddKey(t.Context(), secret, "acme", "ada", true)
	is.NoErr(err)
	found, err := s.Key(t.Context(), server.HashKey(secret))
	is.NoErr(err)
	is.Equal(found.ID, made.ID)
	is.Equal(found.Org, "acme")
	is.Equal(found.User, "ada")
	is.True(found.Admin)
	again, err := s.AddKey(t.Context(), secret, "acme", "ada", true)
	is.NoErr(err)
	is.Equal(again.ID, made.ID) // a second start seeds the same key
	_, err = s.AddKey(t.Context(), secret, "other", "ada", true)
	is.True(err != nil) // but gives it to nobody else

	list, err := s.Keys(t.Context())
	is.NoErr(err)
	is.Equal(len(list), 1)
	is.NoErr(other.RevokeKey(t.Context(), made.ID))
	_, err = s.Key(t.Context(), server.HashKey(secret))
	is.True(errors.Is(err, server.ErrNoKey)) // at once, in the server too
	is.True(errors.Is(other.RevokeKey(t.Context(), made.ID), server.ErrNoKey))
	_, err = s.AddKey(t.Context(), secret, "acme", "ada", true)
	is.True(err != nil) // what was revoked stays so
}

func TestKeysRefused(t *testing.T) {
	s := open(t, t.TempDir())
	for name, add := range map[string]func() error{
		"no organisation": func() error { _, err := s.AddKey(t.Context(), server.NewKey(), "", "", false); return err },
		"long name": func() error {
			_, err := s.AddKey(t.Context(), server.NewKey(), strings.Repeat("x", 129), "", false)
			return err
		},
		"control":   func() error { _, err := s.AddKey(t.Context(), server.NewKey(), "a\nb", "", false); return err },
		"no prefix": func() error { _, err := s.AddKey(t.Context(), strings.Repeat("x", 40), "a", "", false); return err },
		"short":     func() error { _, err := s.AddKey(t.Context(), "sk-short", "a", "", false); return err },
	} {
		if add() == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}

// TestNothingSecret looks for a key in the bytes of the files.
func TestNothingSecret(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	s := open(t, root)
	secret := server.NewKey()
	_, err := s.AddKey(t.Context(), secret, "acme", "", false)
	is.NoErr(err)
	files, err := filepath.Glob(filepath.Join(root, "*"))
	is.NoErr(err)
	is.True(len(files) > 0)
	for _, name := range files {
		b, err := os.ReadFile(name)
		is.NoErr(err)
		is.True(!strings.Contains(string(b), secret[3:]))
		info, err := os.Stat(name)
		is.NoErr(err)
		is.Equal(info.Mode().Perm()&0o077, os.FileMode(0))
	}
}

func TestLedger(t *testing.T) {
	is := is.New(t)
	s := open(t, t.TempDir())
	ctx := t.Context()
	is.NoErr(s.Credit(ctx, "one", "acme", 100))
	is.NoErr(s.Credit(ctx, "one", "acme", 100)) // told twice
	e := server.Entry{Key: "run:1", Org: "acme", Kind: "run", Amount: 3 * server.Cent, Time: time.Now()}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Charge(ctx, e); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	balance, err := s.Balance(ctx, "acme")
	is.NoErr(err)
	is.Equal(balance, int64(97*server.Cent)) // each is counted once
	is.NoErr(s.Debit(ctx, "one", "acme", 98))
	is.NoErr(s.Debit(ctx, "one", "acme", 98)) // told twice
	balance, err = s.Balance(ctx, "acme")
	is.NoErr(err)
	is.Equal(balance, int64(-1*server.Cent))
	for _, cents := range []int64{0, -5, math.MaxInt64} {
		is.True(s.Credit(ctx, "odd", "acme", cents) != nil)
		is.True(s.Debit(ctx, "odd", "acme", cents) != nil)
	}
	balance, err = s.Balance(ctx, "nobody")
	is.NoErr(err)
	is.Equal(balance, int64(0))
}

// TestSpans has events be told again, settlements race and time stand still;
// each second is billed once.
func TestSpans(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	s := open(t, root)
	ctx := t.Context()
	begin := time.Unix(1_790_000_000, 0)
	span := server.Span{Sandbox: "x", Generation: 2, Org: "acme", Class: "exec", Hour: 3600 * server.Cent, Start: begin}
	is.NoErr(s.Open(ctx, span))
	is.NoErr(s.Advance(ctx, []string{"x"}, begin.Add(10*time.Second)))
	later := span
	later.Start = begin.Add(5 * time.Second)
	is.NoErr(s.Open(ctx, later)) // told again: it is the same span
	is.NoErr(s.Advance(ctx, []string{"x"}, begin.Add(10*time.Second)))
	is.NoErr(s.Advance(ctx, []string{"x"}, begin.Add(3*time.Second))) // a clock that went back
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.Advance(ctx, []string{"x"}, begin.Add(30*time.Second)); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := s.Settle(ctx, "x", 3, begin.Add(60*time.Second)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	is.NoErr(s.Close())
	s = open(t, root) // after a crash
	is.NoErr(s.Settle(ctx, "x", 3, begin.Add(90*time.Second)))
	is.NoErr(s.Advance(ctx, []string{"x"}, begin.Add(1000*time.Second)))
	balance, err := s.Balance(ctx, "acme")
	is.NoErr(err)
	is.Equal(balance, int64(-60*server.Cent)) // a cent a second, for a minute

	span.Generation, span.Start = 4, begin.Add(100*time.Second) // resumed
	is.NoErr(s.Open(ctx, span))
	is.NoErr(s.Settle(ctx, "x", 3, begin.Add(200*time.Second))) // the old pause, told again, is not of the new span
	is.NoErr(s.Settle(ctx, "x", 5, begin.Add(101*time.Second)))
	usage, err := s.Usage(ctx, "acme", time.Time{})
	is.NoErr(err)
	is.Equal(len(usage), 1)
	is.Equal(usage[0].Seconds, int64(61))
	is.Equal(usage[0].Amount, int64(61*server.Cent))
}

// TestForgottenSpans has time of what does not run any more not be charged, if
// nobody has told how it ended.
func TestForgottenSpans(t *testing.T) {
	is := is.New(t)
	s := open(t, t.TempDir())
	ctx := t.Context()
	begin := time.Unix(1_790_000_000, 0)
	for _, id := range []string{"x", "y"} {
		is.NoErr(s.Open(ctx, server.Span{Sandbox: id, Generation: 1, Org: "acme", Hour: 3600 * server.Cent, Start: begin}))
	}
	seconds := func() (n int64) {
		usage, err := s.Usage(ctx, "acme", time.Time{})
		is.NoErr(err)
		for _, u := range usage {
			n += u.Seconds
		}
		return n
	}
	is.NoErr(s.Advance(ctx, []string{"x", "y"}, begin.Add(10*time.Second)))
	is.Equal(seconds(), int64(20))
	is.NoErr(s.Advance(ctx, []string{"y", "'), ('x"}, begin.Add(20*time.Second)))
	is.NoErr(s.Advance(ctx, nil, begin.Add(30*time.Second)))
	is.Equal(seconds(), int64(30))
	is.NoErr(s.Keep(ctx, []string{"y"}))
	is.NoErr(s.Settle(ctx, "x", 2, begin.Add(40*time.Second))) // too late
	is.NoErr(s.Settle(ctx, "y", 2, begin.Add(40*time.Second)))
	is.Equal(seconds(), int64(50))
	is.NoErr(s.Keep(ctx, nil))
}

func TestFreeStillCounts(t *testing.T) {
	is := is.New(t)
	s := open(t, t.TempDir())
	begin := time.Unix(1_790_000_000, 0)
	is.NoErr(s.Open(t.Context(), server.Span{Sandbox: "x", Generation: 1, Org: "acme", Start: begin}))
	is.NoErr(s.Settle(t.Context(), "x", 2, begin.Add(time.Hour)))
	usage, err := s.Usage(t.Context(), "", time.Time{})
	is.NoErr(err)
	is.Equal(usage[0].Seconds, int64(3600)) // a later price bills nothing of the past
	is.Equal(usage[0].Amount, int64(0))
}

// TestReservations has as many succeed at once as the balance covers, from two
// programs, and no more until one is released, charged or over.
func TestReservations(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	s, other := open(t, root), open(t, root)
	ctx := t.Context()
	is.NoErr(s.Credit(ctx, "one", "acme", 3))
	soon := time.Now().Add(time.Hour)
	var had []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 16 {
		key := "run:" + strconv.Itoa(i)
		wg.Go(func() {
			err := []*store.Store{s, other}[i%2].Reserve(ctx, server.Reservation{Key: key, Org: "acme", Amount: server.Cent, Until: soon})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				had = append(had, key)
			} else if !errors.Is(err, server.ErrBalance) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	is.Equal(len(had), 3)
	one := server.Reservation{Key: "run:more", Org: "acme", Amount: server.Cent, Until: soon}
	is.True(errors.Is(s.Reserve(ctx, one), server.ErrBalance))
	nobody := one
	nobody.Org = "nobody"
	is.True(errors.Is(s.Reserve(ctx, nobody), server.ErrBalance))

	is.NoErr(s.Charge(ctx, server.Entry{Key: had[0], Org: "acme", Kind: "run", Amount: server.Cent, Time: time.Now()}))
	is.True(errors.Is(s.Reserve(ctx, one), server.ErrBalance)) // what is charged is gone
	is.NoErr(s.Release(ctx, had[1]))
	is.NoErr(s.Release(ctx, had[1]))
	one.Until = time.Now().Add(-time.Second)
	is.NoErr(s.Reserve(ctx, one)) // of who died since
	one.Key, one.Until = "run:late", soon
	is.NoErr(s.Reserve(ctx, one))
	is.NoErr(other.Keep(ctx, nil)) // the next server's start
	one.Key, one.Amount = "run:both", 2*server.Cent
	is.NoErr(s.Reserve(ctx, one))
	balance, err := s.Balance(ctx, "acme")
	is.NoErr(err)
	is.Equal(balance, int64(2*server.Cent))
}

// TestOlderFile opens a file of the first version.
func TestOlderFile(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	s := open(t, root)
	is.NoErr(s.Credit(t.Context(), "one", "acme", 3))
	is.NoErr(s.Close())
	db, err := sql.Open("sqlite", filepath.Join(root, store.FileName))
	is.NoErr(err)
	_, err = db.ExecContext(t.Context(), "DROP TABLE reservations; PRAGMA user_version = 1")
	is.NoErr(err)
	is.NoErr(db.Close())
	s = open(t, root)
	is.NoErr(s.Reserve(t.Context(), server.Reservation{Key: "x", Org: "acme", Amount: 3 * server.Cent, Until: time.Now().Add(time.Hour)}))
}
