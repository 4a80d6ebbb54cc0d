package sandboxtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A Memory leases sandboxes that are made of maps and goroutines, for tests of
// what stands on a Driver. It keeps the contract and needs no engine, no root
// and no disk; it isolates nothing. It has the abilities of a Runtime, and is
// safe for concurrent use.
//
// Inside is a small set of programs, which take just the options shown:
//
//	true  false  pwd  env  printenv NAME  sleep SECONDS
//	echo [-n] WORD...  printf '%s\n' WORD...
//	cat [FILE...]  tee FILE...  wc -c [FILE]  ln -s TARGET NAME
//	kill -SIGNAL PID  listen PORT
//	sh -c SCRIPT [ARG...]  sh FILE [ARG...]
//
// A script is a list of commands that end in a newline, ";" or "&", with
// quotes, $NAME, $1, $? and $$, with "> FILE", "2> FILE", ">&2" and "2>&1",
// and with exit N. A file is a program if its mode and first line say so.
//
// Files belong to one user, whoever a command is to run as. Resource limits
// are ignored, and a terminal is no more than one output for both streams.
type Memory struct {
	// Programs adds to the programs inside, by name, or replaces some. It is
	// set before the first lease.
	Programs map[string]Program

	ending sync.WaitGroup // of sandboxes

	mu     sync.Mutex
	boxes  map[string]*box
	ended  map[string]bool
	closed bool
}

var (
	_ sandbox.Driver     = (*Memory)(nil)
	_ sandbox.FileSystem = (*Memory)(nil)
	_ sandbox.Dialer     = (*Memory)(nil)
	_ sandbox.PortLister = (*Memory)(nil)
	_ Sandboxes          = (*Memory)(nil)
)

// NewMemory returns a Memory without sandboxes. Close ends those that it gets.
func NewMemory() *Memory {
	return &Memory{boxes: map[string]*box{}, ended: map[string]bool{}}
}

const workdir = "/mnt/data"

// The lengths of leases, as of the class exec.
const (
	defaultTTL = 15 * time.Minute
	maxTTL     = 24 * time.Hour
)

// Lease is as of a Runtime. Every image is there, and all are the same.
func (m *Memory) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	if err := errors.Join(context.Cause(ctx), complete(&spec)); err != nil {
		return nil, &sandbox.Error{Op: "lease", Err: err}
	}
	now := time.Now()
	b := newBox(sandbox.Info{
		ID: newID(), Owner: spec.Owner, Class: spec.Class, Image: spec.Image,
		Status: sandbox.StatusRunning, Workdir: workdir,
		Created: now, Expires: now.Add(spec.TTL),
	}, m.Programs, spec.Env)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, &sandbox.Error{Op: "lease", Err: sandbox.ErrClosed}
	}
	id := b.info.ID
	m.boxes[id] = b
	b.timer = time.AfterFunc(spec.TTL, func() { m.end(id) })
	return sandbox.Handle(m, id), nil
}

func complete(spec *sandbox.Spec) error {
	if spec.Class == "" {
		spec.Class = sandbox.ClassExec
	}
	if spec.Image == "" {
		spec.Image = sandbox.HostImage
	}
	if spec.TTL == 0 {
		spec.TTL = defaultTTL
	}
	spec.TTL = min(spec.TTL, maxTTL)
	switch {
	case spec.Class != sandbox.ClassExec:
		return fmt.Errorf("%w: class %.80q", sandbox.ErrInvalid, spec.Class)
	case spec.Network != "" && spec.Network != "none":
		return fmt.Errorf("%w: network %.40q", sandbox.ErrInvalid, spec.Network)
	case spec.TTL < 0:
		return fmt.Errorf("%w: a negative TTL", sandbox.ErrInvalid)
	}
	for _, kv := range spec.Env {
		if strings.IndexByte(kv, '=') <= 0 || strings.ContainsRune(kv, 0) {
			return fmt.Errorf("%w: environment entry %.40q", sandbox.ErrInvalid, kv)
		}
	}
	return nil
}

// newID returns an id of the form that a Runtime gives.
func newID() string { return strings.ToLower(rand.Text())[:21] }

// Attach is as of a Runtime.
func (m *Memory) Attach(_ context.Context, id string) (*sandbox.Sandbox, error) {
	if _, err := m.find("attach", id); err != nil {
		return nil, err
	}
	return sandbox.Handle(m, id), nil
}

// Info implements sandbox.Driver.
func (m *Memory) Info(_ context.Context, id string) (sandbox.Info, error) {
	b, err := m.find("info", id)
	if err != nil {
		return sandbox.Info{}, err
	}
	return b.info, nil
}

// End implements sandbox.Driver. It returns when every program has.
func (m *Memory) End(_ context.Context, id string) error {
	if _, err := m.find("end", id); err != nil {
		return err
	}
	if !m.end(id) {
		return &sandbox.Error{Op: "end", ID: id, Err: sandbox.ErrEnded}
	}
	return nil
}

// Close ends all sandboxes and returns when every program has.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	ids := make([]string, 0, len(m.boxes))
	for id := range m.boxes {
		ids = append(ids, id)
	}
	m.mu.Unlock()
	for _, id := range ids {
		m.end(id)
	}
	m.ending.Wait() // also what others are about to end
	return nil
}

// end reports whether it is this call that has ended the sandbox.
func (m *Memory) end(id string) bool {
	m.mu.Lock()
	b := m.boxes[id]
	if b == nil {
		m.mu.Unlock()
		return false
	}
	delete(m.boxes, id)
	m.ended[id] = true
	m.ending.Add(1)
	m.mu.Unlock()
	defer m.ending.Done()
	b.close()
	return true
}

func (m *Memory) find(op, id string) (*box, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.boxes[id]; b != nil {
		return b, nil
	}
	if m.ended[id] {
		return nil, &sandbox.Error{Op: op, ID: id, Err: sandbox.ErrEnded}
	}
	return nil, &sandbox.Error{Op: op, ID: fmt.Sprintf("%.40q", id), Err: sandbox.ErrNotFound}
}
