package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hanzoai/sandbox/server"
)

// Key implements server.Keys.
func (s *Store) Key(ctx context.Context, hash [sha256.Size]byte) (server.Key, error) {
	row := s.db.QueryRowContext(ctx, "SELECT "+keyColumns+" FROM keys WHERE hash = ? AND revoked = 0", hash[:])
	key, err := scanKey(row)
	if errors.Is(err, sql.ErrNoRows) {
		return server.Key{}, server.ErrNoKey
	}
	return key, err
}

const keyColumns = "id, org, user, admin, created, revoked"

func scanKey(row interface{ Scan(...any) error }) (server.Key, error) {
	var k server.Key
	var created, revoked int64
	if err := row.Scan(&k.ID, &k.Org, &k.User, &k.Admin, &created, &revoked); err != nil {
		return server.Key{}, err
	}
	k.Created = time.Unix(created, 0)
	if revoked != 0 {
		k.Revoked = time.Unix(revoked, 0)
	}
	return k, nil
}

// maxName bounds the names of organisations and users.
const maxName = 128

func checkName(what, name string) error {
	if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%s %.40q: want at most %d bytes of UTF-8 without control characters", what, name, maxName)
	}
	return nil
}

// AddKey makes a key known by its hash. The key itself is the caller's to show
// and forget. That the same key is known already is no error if it is for the
// same holder.
func (s *Store) AddKey(ctx context.Context, secret, org, user string, admin bool) (server.Key, error) {
	if org == "" {
		return server.Key{}, errors.New("a key is of an organisation: name one")
	}
	if err := errors.Join(checkName("organisation", org), checkName("user", user)); err != nil {
		return server.Key{}, err
	}
	if !strings.HasPrefix(secret, server.KeyPrefix) || len(secret) < minSecret {
		return server.Key{}, fmt.Errorf("a key begins with %s and has at least %d characters", server.KeyPrefix, minSecret)
	}
	hash := server.HashKey(secret)
	k := server.Key{ID: newKeyID(), Org: org, User: user, Admin: admin, Created: time.Now()}
	_, err := s.db.ExecContext(ctx, "INSERT INTO keys (id, hash, org, user, admin, created) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO NOTHING",
		k.ID, hash[:], k.Org, k.User, k.Admin, k.Created.Unix())
	if err != nil {
		return server.Key{}, err
	}
	known, err := s.Key(ctx, hash)
	if errors.Is(err, server.ErrNoKey) {
		return server.Key{}, errors.New("that key has been revoked")
	}
	if err == nil && (known.Org != org || known.User != user || known.Admin != admin) {
		return server.Key{}, errors.New("that key is somebody else's")
	}
	return known, err
}

// minSecret keeps words from being keys. What NewKey returns has 46.
const minSecret = 19

func newKeyID() string { return "key_" + strings.ToLower(rand.Text())[:12] }

// Keys lists all keys, revoked ones too, oldest first.
func (s *Store) Keys(ctx context.Context) ([]server.Key, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT "+keyColumns+" FROM keys ORDER BY created, id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []server.Key
	for rows.Next() {
		k, err := scanKey(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, rows.Err()
}

// RevokeKey has a key be good for nothing from now on.
func (s *Store) RevokeKey(ctx context.Context, id string) error {
	result, err := s.db.ExecContext(ctx, "UPDATE keys SET revoked = ? WHERE id = ? AND revoked = 0", time.Now().Unix(), id)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, fmt.Errorf("%.40q: %w, or it has been revoked", id, server.ErrNoKey))
	}
	return nil
}
