package sandboxtest

import (
	"io"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A use is something under way in a sandbox that runs.
type use struct {
	*box
	done func() // ends the use
}

// use enters a use, which has the lease lengthened as long as it lasts.
func (m *Memory) use(op, id string) (use, error) {
	return m.enter(op, id, func(b *box) *int { return &b.uses })
}

// watching is a use by somebody who may only be looking on: that is one when
// it begins and ends, and when something is typed.
func (m *Memory) watching(op, id string) (use, error) {
	return m.enter(op, id, func(b *box) *int { return &b.watched })
}

func (m *Memory) enter(op, id string, of func(*box) *int) (use, error) {
	s, err := m.find(op, id)
	if err != nil {
		return use{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return use{}, &sandbox.Error{Op: op, ID: id, Err: err}
	}
	b := s.box
	leave := b.count(of(b))
	b.work.Add(1)
	return use{b, func() {
		leave()
		b.work.Done()
	}}, nil
}

// hold is a use that goes on when its call returns: an open file or
// connection. Nobody waits for its end.
func (b *box) hold() (release func()) {
	b.sandbox.mu.Lock()
	defer b.sandbox.mu.Unlock()
	return b.count(&b.uses)
}

// count adds a use, and returns what takes it back. The caller holds the
// sandbox's mu.
func (b *box) count(uses *int) (leave func()) {
	*uses++
	b.touch(time.Now())
	return sync.OnceFunc(func() {
		b.sandbox.mu.Lock()
		defer b.sandbox.mu.Unlock()
		*uses--
		b.touch(time.Now())
	})
}

// usable says why the sandbox cannot be used now. The caller holds s.mu.
func (s *instance) usable() error {
	switch {
	case s.leaving != nil:
		return s.leaving
	case s.box == nil:
		return s.notNow(s.info.Status)
	}
	return nil
}

// touch notes a use. The caller holds the sandbox's mu.
func (b *box) touch(now time.Time) {
	s := b.sandbox
	if s.box != b {
		return // an open file outlived what it was opened in
	}
	s.info.Used = now
	if b.watched > 0 {
		s.info.Connected = now
	}
	s.extend(now)
}

// input is the standard input of a process. Of a terminal it is typed.
func (b *box) input(p *sandbox.Process) io.Reader {
	if p.Terminal == nil {
		return p.Stdin
	}
	return &typing{p.Stdin, b}
}

type typing struct {
	io.Reader
	box *box
}

func (t *typing) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.box.sandbox.mu.Lock()
		t.box.touch(time.Now())
		t.box.sandbox.mu.Unlock()
	}
	return n, err
}
