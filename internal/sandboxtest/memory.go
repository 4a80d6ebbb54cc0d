package sandboxtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/hanzoai/sandbox/sandbox"
)

// A Memory leases sandboxes that are made of maps and goroutines, for tests of
// what stands on a Driver. It keeps the contract and needs no engine, no root
// and no disk; it isolates nothing. It has the abilities, classes and ceilings
// of a Runtime, but no clock for what is idle, and is safe for concurrent use.
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
// The volumes of projects live as long as the Memory.
type Memory struct {
	// Programs adds to the programs inside, by name, or replaces some. It is
	// set before the first lease.
	Programs map[string]Program

	mu        sync.Mutex
	instances map[string]*instance
	ended     map[string]bool
	disks     map[string]*disk // of projects, by the names of their volumes
	closed    bool
}

var (
	_ sandbox.Driver     = (*Memory)(nil)
	_ sandbox.FileSystem = (*Memory)(nil)
	_ sandbox.Dialer     = (*Memory)(nil)
	_ sandbox.PortLister = (*Memory)(nil)
	_ sandbox.Pauser     = (*Memory)(nil)
	_ sandbox.Renewer    = (*Memory)(nil)
	_ sandbox.Purger     = (*Memory)(nil)
	_ Sandboxes          = (*Memory)(nil)
)

// NewMemory returns a Memory without sandboxes. Close ends those that it gets.
func NewMemory() *Memory {
	return &Memory{instances: map[string]*instance{}, ended: map[string]bool{}, disks: map[string]*disk{}}
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
	s, err := m.find("info", id)
	if err != nil {
		return sandbox.Info{}, err
	}
	return s.describe(), nil
}

// End implements sandbox.Driver. It returns when every program has.
func (m *Memory) End(_ context.Context, id string) error {
	return m.do("end", id, func(s *instance) error { return s.end(false) })
}

// Purge implements sandbox.Purger. It returns when every program has.
func (m *Memory) Purge(_ context.Context, id string) error {
	return m.do("purge", id, func(s *instance) error { return s.end(true) })
}

// Close ends all sandboxes and returns when every program has.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	all := make([]*instance, 0, len(m.instances))
	for _, s := range m.instances {
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		if err := s.end(false); err != nil && !errors.Is(err, sandbox.ErrEnded) {
			return err
		}
	}
	return nil
}

// do does something to a sandbox as a whole.
func (m *Memory) do(op, id string, f func(*instance) error) error {
	s, err := m.find(op, id)
	if err != nil {
		return err
	}
	if err := f(s); err != nil {
		return &sandbox.Error{Op: op, ID: id, Err: err}
	}
	return nil
}

func (m *Memory) find(op, id string) (*instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.instances[id]; s != nil {
		return s, nil
	}
	if m.ended[id] {
		return nil, &sandbox.Error{Op: op, ID: id, Err: sandbox.ErrEnded}
	}
	return nil, &sandbox.Error{Op: op, ID: fmt.Sprintf("%.40q", id), Err: sandbox.ErrNotFound}
}
