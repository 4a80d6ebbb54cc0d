// Package volume keeps files that outlive a sandbox's engine.
package volume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"
)

type Store struct{ dir string }

type Stats struct{ Flush time.Duration }

func Open(dir string) (*Store, error) { return &Store{dir}, os.MkdirAll(dir, 0o700) }

func Name(org, project string) string {
	sum := sha256.Sum256([]byte(org + "\x00" + project))
	return "m-" + hex.EncodeToString(sum[:5])
}

func (s *Store) Mount(_ context.Context, name string, size int64, uid, gid int) (string, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chown(dir, uid, gid)
}

func (s *Store) Unmount(context.Context, string) (Stats, error) { return Stats{}, nil }

func (s *Store) Remove(_ context.Context, name string) error {
	return os.RemoveAll(filepath.Join(s.dir, name))
}

func (s *Store) Close() error { return nil }
