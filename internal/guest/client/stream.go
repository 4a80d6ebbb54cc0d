package client

import (
	"io"
	"sync"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A sink hands one stream to its writer. It has room for a whole window, so
// that listening never waits for a writer.
type sink struct {
	run  *run
	w    io.Writer
	kind wire.Kind
	done chan struct{}
	err  error // of the writer; valid once done is closed
	owed int   // taken, and not yet told

	mu     sync.Mutex
	change *sync.Cond
	queue  []byte
	ended  bool
}

func (r *run) newSink(w io.Writer, kind wire.Kind) *sink {
	s := &sink{run: r, w: w, kind: kind, done: make(chan struct{})}
	s.change = sync.NewCond(&s.mu)
	go s.copy()
	return s
}

func (s *sink) add(p []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue)+len(p) > wire.Window {
		return false
	}
	s.queue = append(s.queue, p...)
	s.change.Signal()
	return true
}

func (s *sink) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.change.Signal()
}

// giveUp drops what the writer has not got yet.
func (s *sink) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue, s.ended = nil, true
	s.change.Signal()
}

func (s *sink) copy() {
	defer close(s.done)
	var spare []byte
	for {
		p, ok := s.take(spare)
		if !ok {
			return
		}
		if s.err == nil {
			s.write(p)
		}
		if s.owed += len(p); s.owed >= wire.Window/2 {
			s.run.send(wire.KindCredit, wire.Credit(s.kind, s.owed))
			s.owed = 0
		}
		spare = p[:0]
	}
}

// write writes p. When the writer fails, the command is to notice, as it would
// of a closed pipe.
func (s *sink) write(p []byte) {
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = err
		s.run.send(wire.KindClose, []byte{byte(s.kind)})
	}
}

// take swaps the queue for an empty buffer.
func (s *sink) take(spare []byte) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.ended {
		s.change.Wait()
	}
	p := s.queue
	s.queue = spare
	return p, len(p) > 0
}

// A source sends a reader to the command, as the command takes it.
type source struct {
	run *run
	r   io.Reader

	mu      sync.Mutex
	change  *sync.Cond
	room    int
	stopped bool
	err     error
}

func newSource(in io.Reader, r *run) *source {
	s := &source{run: r, r: in, room: wire.Window}
	s.change = sync.NewCond(&s.mu)
	go s.copy()
	return s
}

func (s *source) credit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = min(s.room+n, wire.Window)
	s.change.Signal()
}

// stop ends the copying: the command does not read any more.
func (s *source) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.change.Signal()
}

func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// take waits for room for up to n bytes.
func (s *source) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.room == 0 && !s.stopped {
		s.change.Wait()
	}
	if s.stopped {
		return 0
	}
	return min(n, s.room)
}

func (s *source) use(n int) (stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room -= n
	return s.stopped
}

const sourceChunk = 32 << 10

func (s *source) copy() {
	defer func() { s.run.send(wire.KindCloseStdin, nil) }()
	buf := make([]byte, sourceChunk)
	for {
		room := s.take(len(buf))
		if room == 0 {
			return
		}
		n, err := s.r.Read(buf[:room])
		if s.use(n) {
			return
		}
		if n > 0 && s.run.send(wire.KindStdin, buf[:n]) != nil {
			return
		}
		if err != nil {
			if err != io.EOF {
				s.mu.Lock()
				s.err = err
				s.mu.Unlock()
			}
			return
		}
	}
}
