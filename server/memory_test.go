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
	leased []sandbox.Info // in order
}

func newMemory(t testing.TB) *memory {
	m := &memory{Memory: sandboxtest.NewMemory()}
	t.Cleanup(func() { m.Close() })
	return m
}

func (m *memory) For(o sandbox.Owner) server.Sandboxes { return &view{m, o} }

// A view is what one owner sees.
type view struct {
	m     *memory
	owner sandbox.Owner
}

func (v *view) covers(o sandbox.Owner) bool {
	return v.owner.Org == o.Org && (v.owner.Actor == "" || v.owner.Actor == o.Actor)
}

func (v *view) check(id string) error {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	for _, info := range v.m.leased {
		if info.ID == id && v.covers(info.Owner) {
			return nil
		}
	}
	return &sandbox.Error{Op: "check", ID: id, Err: sandbox.ErrNotFound}
}

func (v *view) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	if spec.ID != "" && v.check(spec.ID) == nil {
		if _, err := v.m.Info(ctx, spec.ID); err == nil {
			return sandbox.Handle(v, spec.ID), nil
		}
	}
	spec.Owner = v.owner
	sb, err := v.m.Memory.Lease(ctx, spec)
	if err != nil {
		return nil, err
	}
	info, err := v.m.Memory.Info(ctx, sb.ID())
	if err != nil {
		return nil, err
	}
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	v.m.leased = append(v.m.leased, info)
	return sandbox.Handle(v, sb.ID()), nil
}

func (v *view) List(ctx context.Context) iter.Seq2[sandbox.Info, error] {
	return func(yield func(sandbox.Info, error) bool) {
		v.m.mu.Lock()
		list := slices.Clone(v.m.leased)
		v.m.mu.Unlock()
		slices.Reverse(list)
		for _, info := range list {
			if !v.covers(info.Owner) {
				continue
			}
			if now, err := v.m.Info(ctx, info.ID); err == nil && !yield(now, nil) {
				return
			}
		}
	}
}

func (v *view) Info(ctx context.Context, id string) (sandbox.Info, error) {
	if err := v.check(id); err != nil {
		return sandbox.Info{}, err
	}
	return v.m.Info(ctx, id)
}

func (v *view) Exec(ctx context.Context, id string, p *sandbox.Process) (sandbox.ExitStatus, error) {
	if err := v.check(id); err != nil {
		return sandbox.ExitStatus{}, err
	}
	return v.m.Exec(ctx, id, p)
}

func (v *view) Open(ctx context.Context, id, name string) (fs.File, error) {
	if err := v.check(id); err != nil {
		return nil, err
	}
	return v.m.Open(ctx, id, name)
}

func (v *view) WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	if err := v.check(id); err != nil {
		return err
	}
	return v.m.WriteFile(ctx, id, name, src, perm)
}

func (v *view) End(ctx context.Context, id string) error {
	if err := v.check(id); err != nil {
		return err
	}
	return v.m.End(ctx, id)
}

func (v *view) Stat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	if err := v.check(id); err != nil {
		return nil, err
	}
	return v.m.Stat(ctx, id, name)
}

func (v *view) Lstat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	if err := v.check(id); err != nil {
		return nil, err
	}
	return v.m.Lstat(ctx, id, name)
}

func (v *view) ReadLink(ctx context.Context, id, name string) (string, error) {
	if err := v.check(id); err != nil {
		return "", err
	}
	return v.m.ReadLink(ctx, id, name)
}

func (v *view) ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error) {
	if err := v.check(id); err != nil {
		return nil, err
	}
	return v.m.ReadDir(ctx, id, name)
}

func (v *view) Mkdir(ctx context.Context, id, name string, perm fs.FileMode, parents bool) error {
	if err := v.check(id); err != nil {
		return err
	}
	return v.m.Mkdir(ctx, id, name, perm, parents)
}

func (v *view) Remove(ctx context.Context, id, name string, tree bool) error {
	if err := v.check(id); err != nil {
		return err
	}
	return v.m.Remove(ctx, id, name, tree)
}

func (v *view) DialContext(ctx context.Context, id, network, address string) (net.Conn, error) {
	if err := v.check(id); err != nil {
		return nil, err
	}
	return v.m.DialContext(ctx, id, network, address)
}

func (v *view) Ports(ctx context.Context, id string) ([]int, error) {
	if err := v.check(id); err != nil {
		return nil, err
	}
	return v.m.Ports(ctx, id)
}

// keyring is the keys of a test.
type keyring map[[sha256.Size]byte]server.Key

func (k keyring) Key(_ context.Context, hash [sha256.Size]byte) (server.Key, error) {
	key, ok := k[hash]
	if !ok || !key.Revoked.IsZero() {
		return server.Key{}, server.ErrNoKey
	}
	return key, nil
}

// add makes a key.
func (k keyring) add(org, user string, admin bool) string {
	secret := server.NewKey()
	k[server.HashKey(secret)] = server.Key{ID: secret[3:11], Org: org, User: user, Admin: admin, Created: time.Now()}
	return secret
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
