package server

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// errSinkClosed is of an output that the peer takes no more of.
var errSinkClosed = errors.New("the peer takes no more")

// A sink sends one output to the peer, as far as it has room.
type sink struct {
	x    *execution
	kind wire.Kind

	mu     sync.Mutex
	change *sync.Cond
	room   int
	closed bool
}

func newSink(x *execution, kind wire.Kind) *sink {
	s := &sink{x: x, kind: kind, room: wire.Window}
	s.change = sync.NewCond(&s.mu)
	return s
}

func (s *sink) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n := s.take(min(len(p)-sent, wire.MaxData))
		if n == 0 {
			return sent, errSinkClosed
		}
		if err := s.x.send(s.kind, p[sent:sent+n]); err != nil {
			return sent, errSinkClosed
		}
		sent += n
	}
	return sent, nil
}

// take waits for room for up to n bytes; it is 0 once the sink is closed.
func (s *sink) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.room == 0 && !s.closed {
		s.change.Wait()
	}
	if s.closed {
		return 0
	}
	n = min(n, s.room)
	s.room -= n
	return n
}

func (s *sink) credit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = min(s.room+n, wire.Window)
	s.change.Signal()
}

func (s *sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.change.Broadcast()
}

// A stdin is what the peer sends, for the program to read. Its methods do
// nothing on a nil one, of a command that reads nothing.
type stdin struct {
	x *execution

	mu     sync.Mutex
	change *sync.Cond
	queue  []byte
	ended  bool
	owed   int // taken, and not yet told
}

func newStdin(x *execution) *stdin {
	in := &stdin{x: x}
	in.change = sync.NewCond(&in.mu)
	return in
}

// add queues p, and reports whether the peer keeps within the window.
func (in *stdin) add(p []byte) bool {
	if in == nil {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.queue)+in.owed+len(p) > wire.Window {
		return false
	}
	if !in.ended {
		in.queue = append(in.queue, p...)
	}
	in.change.Signal()
	return true
}

func (in *stdin) end() {
	if in == nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.change.Broadcast()
}

func (in *stdin) Read(p []byte) (int, error) {
	n, owed := in.take(p)
	if owed > 0 {
		in.x.send(wire.KindCredit, wire.Credit(wire.KindStdin, owed)) //nolint:errcheck // the peer's end is noticed elsewhere
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// take waits for bytes, and tells when there is credit to be given for them.
func (in *stdin) take(p []byte) (n, owed int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.queue) == 0 && !in.ended {
		in.change.Wait()
	}
	n = copy(p, in.queue)
	in.queue = in.queue[n:]
	if in.owed += n; in.owed >= wire.Window/2 {
		owed, in.owed = in.owed, 0
	}
	return n, owed
}
