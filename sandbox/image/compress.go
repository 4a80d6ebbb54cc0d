package image

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds what a zstd stream may make its reader hold.
const maxWindow = 128 << 20

// decompress returns what a reader's gzip or zstd stream holds, or what it has
// as it is, and which it was: "gzip", "zstd" or "". What was compressed is
// told by its first bytes, since what is said of it elsewhere may be wrong.
func decompress(r io.Reader) (_ io.ReadCloser, kind string, err error) {
	b := bufio.NewReaderSize(r, 1<<20)
	magic, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, "", err
		}
		return z, "gzip", nil
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, "", err
		}
		return z.IOReadCloser(), "zstd", nil
	}
	return io.NopCloser(b), "", nil
}

// withContext returns a reader that ends with a context.
func withContext(ctx context.Context, r io.Reader) io.Reader { return &contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context //nolint:containedctx // a reader has no other place for it
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// readAhead returns a reader whose source is read by a goroutine, so that
// decompressing and writing go on at the same time. Stop ends that.
func readAhead(r io.Reader) (_ io.Reader, stop func()) {
	a := &aheadReader{full: make(chan chunk, aheadChunks), free: make(chan []byte, aheadChunks), done: make(chan struct{}), over: make(chan struct{})}
	for range aheadChunks {
		a.free <- make([]byte, aheadSize)
	}
	go a.fill(r)
	return a, func() {
		close(a.done)
		<-a.over
	}
}

const (
	aheadChunks = 4
	aheadSize   = 512 << 10
)

type chunk struct {
	b   []byte
	err error
}

type aheadReader struct {
	full chan chunk
	free chan []byte
	done chan struct{} // closed to end it
	over chan struct{} // closed when it has ended
	now  chunk
	rest []byte
}

func (a *aheadReader) fill(r io.Reader) {
	defer close(a.over)
	for {
		var b []byte
		select {
		case b = <-a.free:
		case <-a.done:
			return
		}
		n, err := io.ReadFull(r, b)
		if errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
			// ReadFull's word for an end within the buffer; the source's own
			// comes with the next one.
			err = nil
		}
		a.full <- chunk{b[:n], err} // there is room: chunks are no more than it holds
		if err != nil {
			return
		}
	}
}

func (a *aheadReader) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.b != nil {
			a.free <- a.now.b[:aheadSize]
		}
		a.now = <-a.full
		a.rest = a.now.b
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}
