package server_test

import (
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A memory is a sandboxtest.Memory in which owners do not see each other.
type memory struct {
	*sandboxtest.Memory

	mu     sync.Mutex
	leased []string // in order
	owners map[string]sandbox.Owner
}

func newMemory(t testing.TB) *memory {
	m := &memory{Memory: sandboxtest.NewMemory(), owners: map[string]sandbox.Owner{}}
	t.Cleanup(func() { m.Close() })
	return m
}

func (m *memory) For(o sandbox.Owner) server.Sandboxes { return &view{m, o} }

// A view is what one owner sees.
type view struct {
	m     *memory
	owner sandbox.Owner
}

// check returns ErrNotFound for what is not the owner's, and was not.
func (v *view) check(id string) error {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	of, ok := v.m.owners[id]
	if !ok || of.Org != v.owner.Org || v.owner.Actor != "" && v.owner.Actor != of.Actor {
		return &sandbox.Error{Op: "check", ID: id, Err: sandbox.ErrNotFound}
	}
	return nil
}

func (v *view) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	spec.Owner = v.owner
	sb, err := v.m.Memory.Lease(ctx, spec)
	if err != nil {
		return nil, err
	}
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if _, again := v.m.owners[sb.ID()]; !again {
		v.m.leased = append(v.m.leased, sb.ID())
		v.m.owners[sb.ID()] = v.owner
	}
	return sandbox.Handle(v, sb.ID()), nil
}

func (v *view) Attach(ctx context.Context, id string) (*sandbox.Sandbox, error) {
	if _, err := v.Info(ctx, id); err != nil {
		return nil, err
	}
	return sandbox.Handle(v, id), nil
}

func (v *view) List(ctx context.Context) iter.Seq2[sandbox.Info, error] {
	return func(yield func(sandbox.Info, error) bool) {
		v.m.mu.Lock()
		list := slices.Clone(v.m.leased)
		v.m.mu.Unlock()
		slices.Reverse(list)
		for _, id := range list {
			if now, err := v.Info(ctx, id); err == nil && !yield(now, nil) {
				return
			}
		}
	}
}

// seen does something with a sandbox that the owner sees.
func seen[T any](v *view, id string, f func() (T, error)) (T, error) {
	if err := v.check(id); err != nil {
		var zero T
		return zero, err
	}
	return f()
}

func (v *view) Info(ctx context.Context, id string) (sandbox.Info, error) {
	return seen(v, id, func() (sandbox.Info, error) { return v.m.Info(ctx, id) })
}

func (v *view) Exec(ctx context.Context, id string, p *sandbox.Process) (sandbox.ExitStatus, error) {
	return seen(v, id, func() (sandbox.ExitStatus, error) { return v.m.Exec(ctx, id, p) })
}

func (v *view) Open(ctx context.Context, id, name string) (fs.File, error) {
	return seen(v, id, func() (fs.File, error) { return v.m.Open(ctx, id, name) })
}

func (v *view) Renew(ctx context.Context, id string, ttl time.Duration) (time.Time, error) {
	return seen(v, id, func() (time.Time, error) { return v.m.Renew(ctx, id, ttl) })
}

func (v *view) Stat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	return seen(v, id, func() (fs.FileInfo, error) { return v.m.Stat(ctx, id, name) })
}

func (v *view) Lstat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	return seen(v, id, func() (fs.FileInfo, error) { return v.m.Lstat(ctx, id, name) })
}

func (v *view) ReadLink(ctx context.Context, id, name string) (string, error) {
	return seen(v, id, func() (string, error) { return v.m.ReadLink(ctx, id, name) })
}

func (v *view) ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error) {
	return seen(v, id, func() ([]fs.DirEntry, error) { return v.m.ReadDir(ctx, id, name) })
}

func (v *view) DialContext(ctx context.Context, id, network, address string) (net.Conn, error) {
	return seen(v, id, func() (net.Conn, error) { return v.m.DialContext(ctx, id, network, address) })
}

func (v *view) Ports(ctx context.Context, id string) ([]int, error) {
	return seen(v, id, func() ([]int, error) { return v.m.Ports(ctx, id) })
}

// done is seen for what has no result.
func (v *view) done(id string, f func() error) error {
	_, err := seen(v, id, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

func (v *view) WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	return v.done(id, func() error { return v.m.WriteFile(ctx, id, name, src, perm) })
}

func (v *view) Mkdir(ctx context.Context, id, name string, perm fs.FileMode, parents bool) error {
	return v.done(id, func() error { return v.m.Mkdir(ctx, id, name, perm, parents) })
}

func (v *view) Remove(ctx context.Context, id, name string, tree bool) error {
	return v.done(id, func() error { return v.m.Remove(ctx, id, name, tree) })
}

func (v *view) Pause(ctx context.Context, id string) error {
	return v.done(id, func() error { return v.m.Pause(ctx, id) })
}

func (v *view) Resume(ctx context.Context, id string) error {
	return v.done(id, func() error { return v.m.Resume(ctx, id) })
}

func (v *view) End(ctx context.Context, id string) error {
	return v.done(id, func() error { return v.m.End(ctx, id) })
}

func (v *view) Purge(ctx context.Context, id string) error {
	return v.done(id, func() error { return v.m.Purge(ctx, id) })
}

// keyring is the keys of a test.
type keyring map[[sha256.Size]byte]server.Key

// keyrings is held by who reads or changes one.
var keyrings sync.Mutex

func (k keyring) Key(_ context.Context, hash [sha256.Size]byte) (server.Key, error) {
	keyrings.Lock()
	defer keyrings.Unlock()
	key, ok := k[hash]
	if !ok || !key.Revoked.IsZero() {
		return server.Key{}, server.ErrNoKey
	}
	return key, nil
}

// add makes a key.
func (k keyring) add(org, user string, admin bool) string {
	secret := server.NewKey()
	keyrings.Lock()
	defer keyrings.Unlock()
	k[server.HashKey(secret)] = server.Key{ID: secret[3:11], Org: org, User: user, Admin: admin, Created: time.Now()}
	return secret
}

// revoke has a key be good for nothing, or, of time zero, for something again.
func (k keyring) revoke(secret string, at time.Time) {
	keyrings.Lock()
	defer keyrings.Unlock()
	key := k[server.HashKey(secret)]
	key.Revoked = at
	k[server.HashKey(secret)] = key
}

// start serves over HTTP until the test ends.
func start(t testing.TB, cfg server.Config) *httptest.Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	h, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// remote returns a Remote of a server with sandboxes in memory.
func remote(t testing.TB, cfg server.Config) (*client.Remote, *httptest.Server) {
	t.Helper()
	keys := keyring{}
	cfg.Keys = keys
	if cfg.Sandboxes == nil {
		cfg.Sandboxes = newMemory(t).For
	}
	s := start(t, cfg)
	r, err := client.New(s.URL, client.Config{Key: keys.add("acme", "ada", false)})
	if err != nil {
		t.Fatal(err)
	}
	return r, s
}
