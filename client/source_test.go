package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/matryer/is"
)

// TestSource has both ways of reading deliver the same, whatever the pieces.
func TestSource(t *testing.T) {
	want := strings.Repeat("0123456789abcdef", sourceChunk/4)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole":         func(r io.Reader) io.Reader { return r },
		"halves":        iotest.HalfReader,
		"end with data": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := newSource(t.Context(), wrap(strings.NewReader(want)))
			defer s.Close()
			b, err := io.ReadAll(struct{ io.Reader }{s})
			is.NoErr(err)
			is.True(string(b) == want)

			s = newSource(t.Context(), wrap(strings.NewReader(want)))
			defer s.Close()
			var out bytes.Buffer
			head := make([]byte, 10)
			_, err = io.ReadFull(s, head) // one way after the other
			is.NoErr(err)
			n, err := s.WriteTo(&out)
			is.NoErr(err)
			is.Equal(n, int64(len(want)-10))
			is.True(string(head)+out.String() == want)
		})
	}
}

func TestSourceFails(t *testing.T) {
	is := is.New(t)
	why := errors.New("why")
	s := newSource(t.Context(), io.MultiReader(strings.NewReader("half"), iotest.ErrReader(why)))
	defer s.Close()
	var out bytes.Buffer
	_, err := s.WriteTo(&out)
	is.Equal(err, why)
	is.Equal(s.failure(), why)
	is.Equal(out.String(), "half")
}

// TestSourceIsLeft ends a body under a reader that never returns.
func TestSourceIsLeft(t *testing.T) {
	for name, leave := range map[string]func(s *source, cancel context.CancelCauseFunc){
		"closed":   func(s *source, _ context.CancelCauseFunc) { s.Close(); s.Close() },
		"canceled": func(_ *source, cancel context.CancelCauseFunc) { cancel(errors.New("why")) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			r, w := io.Pipe()
			defer w.Close()
			s := newSource(ctx, r)
			defer s.Close()
			done := make(chan error, 1)
			go func() {
				_, err := s.Read(make([]byte, 1))
				done <- err
			}()
			leave(s, cancel)
			select {
			case err := <-done:
				is.True(err != nil)
			case <-time.After(10 * time.Second):
				is.Fail() // it waits for the reader
			}
		})
	}
}
