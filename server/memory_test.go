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

	mu      sync.Mutex
	leased  []sandbox.Info // in order
	specs   map[string]sandbox.Spec
	parked  map[string]bool
	ceiling int // 0 is none
}

func newMemory(t testing.TB) *memory {
	m := &memory{Memory: sandboxtest.NewMemory(), specs: map[string]sandbox.Spec{}, parked: map[string]bool{}}
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

// owned returns ErrNotFound for what is not the owner's.
func (v *view) owned(id string) error {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	for _, info := range v.m.leased {
		if info.ID == id && v.covers(info.Owner) {
			return nil
		}
	}
	return &sandbox.Error{Op: "check", ID: id, Err: sandbox.ErrNotFound}
}

// check is owned for what takes a sandbox that runs.
func (v *view) check(id string) error {
	if err := v.owned(id); err != nil {
		return err
	}
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if v.m.parked[id] {
		return &sandbox.ConflictError{ID: id, Status: sandbox.StatusParked, Why: "sandbox is parked: resume it first"}
	}
	return nil
}

func (v *view) setParked(id string, parked bool) error {
	if err := v.owned(id); err != nil {
		return err
	}
	if _, err := v.m.Info(context.Background(), id); err != nil {
		return err
	}
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	if s := v.m.specs[id]; !s.Disk && s.Project == "" {
		return &sandbox.ConflictError{ID: id, Status: sandbox.StatusRunning, Why: "sandbox has no volume"}
	}
	v.m.parked[id] = parked
	return nil
}

func (v *view) Pause(_ context.Context, id string) error   { return v.setParked(id, true) }
func (v *view) Resume(_ context.Context, id string) error  { return v.setParked(id, false) }
func (v *view) Purge(ctx context.Context, id string) error { return v.End(ctx, id) }

func (v *view) Renew(ctx context.Context, id string, _ time.Duration) (time.Time, error) {
	if err := v.check(id); err != nil {
		return time.Time{}, err
	}
	info, err := v.Info(ctx, id)
	return info.Expires, err
}

// free refuses a lease that the ceiling or another one stands in the way of.
func (v *view) free(spec *sandbox.Spec) error {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	live := 0
	for _, info := range v.m.leased {
		if _, err := v.m.Memory.Info(context.Background(), info.ID); err != nil || info.Owner.Org != v.owner.Org {
			continue
		}
		live++
		if spec.Project != "" && v.m.specs[info.ID].Project == spec.Project {
			return &sandbox.Error{Op: "lease", Err: &sandbox.ConflictError{ID: info.ID, Status: sandbox.StatusRunning, Why: "project has a sandbox"}}
		}
	}
	if v.m.ceiling > 0 && live >= v.m.ceiling {
		return &sandbox.Error{Op: "lease", Err: &sandbox.CeilingError{Org: v.owner.Org, Class: "exec", Live: live, Ceiling: v.m.ceiling}}
	}
	return nil
}

func (v *view) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	if spec.ID != "" && v.owned(spec.ID) == nil {
		if _, err := v.m.Info(ctx, spec.ID); err == nil {
			return sandbox.Handle(v, spec.ID), nil
		}
	}
	if err := v.free(&spec); err != nil {
		return nil, err
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
	info.Project = spec.Project
	v.m.leased = append(v.m.leased, info)
	v.m.specs[sb.ID()] = spec
	return sandbox.Handle(v, sb.ID()), nil
}

func (v *view) Attach(_ context.Context, id string) (*sandbox.Sandbox, error) {
	if err := v.owned(id); err != nil {
		return nil, err
	}
	if _, err := v.m.Info(context.Background(), id); err != nil {
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
		for _, info := range list {
			if !v.covers(info.Owner) {
				continue
			}
			if now, err := v.Info(ctx, info.ID); err == nil && !yield(now, nil) {
				return
			}
		}
	}
}

func (v *view) Info(ctx context.Context, id string) (sandbox.Info, error) {
	if err := v.owned(id); err != nil {
		return sandbox.Info{}, err
	}
	info, err := v.m.Info(ctx, id)
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	info.Project = v.m.specs[id].Project
	if v.m.parked[id] {
		info.Status = sandbox.StatusParked
	}
	return info, err
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
	if err := v.owned(id); err != nil {
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
