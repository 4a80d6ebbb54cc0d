package client

import (
	"context"
	"errors"
	"io"
	"sync"
)

// A source is the caller's reader as a request's body, which ends with the
// request however long a Read takes. It is read ahead, so that reading and
// sending go on at the same time, and sent in large pieces: each costs several
// system calls on either side. The reader's error is kept.
type source struct {
	ctx    context.Context //nolint:containedctx // the request's
	pieces chan piece
	free   chan []byte
	closed chan struct{}
	close  func()

	rest piece // what Read has not returned yet

	mu  sync.Mutex
	err error
}

type piece struct {
	buf  []byte // whose beginning is data
	data []byte
	err  error
}

const (
	sourceChunk = 256 << 10
	sourceAhead = 2
)

func newSource(ctx context.Context, src io.Reader) *source {
	s := &source{ctx: ctx, pieces: make(chan piece), free: make(chan []byte, sourceAhead), closed: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	for range sourceAhead {
		s.free <- make([]byte, sourceChunk)
	}
	go s.read(src)
	return s
}

// read reads until there is no more, or nobody wants it.
func (s *source) read(src io.Reader) {
	for {
		select {
		case <-s.closed:
			return
		case buf := <-s.free:
			n, err := src.Read(buf)
			if err != nil && !errors.Is(err, io.EOF) {
				s.fail(err)
			}
			select {
			case s.pieces <- piece{buf, buf[:n], err}:
			case <-s.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}
}

func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// next has rest be what comes next.
func (s *source) next() error {
	if s.rest.err != nil {
		return s.rest.err
	}
	if s.rest.buf != nil {
		s.free <- s.rest.buf // which came from there
		s.rest.buf = nil
	}
	select {
	case s.rest = <-s.pieces:
		return nil
	case <-s.closed:
		return io.ErrClosedPipe
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *source) Read(p []byte) (int, error) {
	for len(s.rest.data) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest.data)
	s.rest.data = s.rest.data[n:]
	return n, nil
}

// WriteTo is how a request is sent, in pieces as they were read.
func (s *source) WriteTo(w io.Writer) (n int64, err error) {
	for err == nil {
		if len(s.rest.data) > 0 {
			m, err := w.Write(s.rest.data)
			n += int64(m)
			s.rest.data = s.rest.data[m:]
			if err != nil {
				return n, err
			}
		}
		err = s.next()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Close has the reader read no more.
func (s *source) Close() error {
	s.close()
	return nil
}
