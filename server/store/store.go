// Package store keeps a server's keys and money in SQLite, in one file that
// several programs may have open at a time: sandboxd serves from it while its
// commands change it.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver, without cgo

	"github.com/hanzoai/sandbox/server"
)

// A Store is an open file. It is safe for concurrent use.
type Store struct{ db *sql.DB }

var (
	_ server.Keys   = (*Store)(nil)
	_ server.Ledger = (*Store)(nil)
)

// FileName is the file's name below a server's root.
const FileName = "server.db"

// Open opens the store in a folder, and makes what is missing.
func Open(ctx context.Context, root string) (*Store, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	path, err := filepath.Abs(filepath.Join(root, FileName))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	// It is made here, so that it is its owner's alone from the first moment.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	query := url.Values{"_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
	}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	s := &Store{db}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), db.Close())
	}
	return s, nil
}

const maxConns = 8

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// schema is the tables by version: a later version is a later element.
var schema = []string{`
CREATE TABLE keys (
	id      TEXT PRIMARY KEY,
	hash    BLOB NOT NULL UNIQUE,
	org     TEXT NOT NULL,
	user    TEXT NOT NULL,
	admin   INTEGER NOT NULL,
	created INTEGER NOT NULL,
	revoked INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE entries (
	key     TEXT PRIMARY KEY,
	org     TEXT NOT NULL,
	actor   TEXT NOT NULL,
	kind    TEXT NOT NULL,
	sandbox TEXT NOT NULL,
	class   TEXT NOT NULL,
	seconds INTEGER NOT NULL DEFAULT 0,
	amount  INTEGER NOT NULL,
	time    INTEGER NOT NULL
) STRICT;
CREATE INDEX entries_org ON entries (org, time);
CREATE TABLE balances (org TEXT PRIMARY KEY, amount INTEGER NOT NULL) STRICT;
CREATE TABLE spans (
	sandbox    TEXT NOT NULL,
	generation INTEGER NOT NULL,
	org        TEXT NOT NULL,
	actor      TEXT NOT NULL,
	class      TEXT NOT NULL,
	hour       INTEGER NOT NULL,
	watermark  INTEGER NOT NULL,
	closed     INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (sandbox, generation)
) STRICT;
CREATE INDEX spans_open ON spans (closed) WHERE closed = 0;
`, `
CREATE TABLE reservations (
	key    TEXT PRIMARY KEY,
	org    TEXT NOT NULL,
	amount INTEGER NOT NULL,
	until  INTEGER NOT NULL
) STRICT;
CREATE INDEX reservations_org ON reservations (org);
`}

// migrate brings the tables up to date. Programs that start at the same time
// take turns, by the transaction's lock.
func (s *Store) migrate(ctx context.Context) error {
	return s.do(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if version > len(schema) {
			return fmt.Errorf("the file is of version %d, and this program knows %d: use a newer one", version, len(schema))
		}
		for ; version < len(schema); version++ {
			if _, err := tx.ExecContext(ctx, schema[version]); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
		return err
	})
}

// do carries out a transaction.
func (s *Store) do(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
