package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"
)

// KeyPrefix begins our own keys.
const KeyPrefix = "sk-"

// A Key is what is known of one of our own keys: everything but itself.
type Key struct {
	ID      string // by which it is listed and revoked
	Org     string
	User    string // within Org; "" is the organisation itself, which sees all of it
	Admin   bool   // sees all of Org as well, and leases as User
	Created time.Time
	Revoked time.Time // zero while it is good
}

// Keys knows our own keys by their hashes. It is safe for concurrent use.
type Keys interface {
	// Key returns the key with that hash, or ErrNoKey if there is none or it
	// has been revoked.
	Key(ctx context.Context, hash [sha256.Size]byte) (Key, error)
}

// ErrNoKey says that there is no such key, or that it has been revoked.
var ErrNoKey = errors.New("no such key")

// NewKey returns a new key, which is shown once and kept nowhere.
func NewKey() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return KeyPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// HashKey is what is kept of a key. It has 256 random bits, so that a fast
// hash does.
func HashKey(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }
