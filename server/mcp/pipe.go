package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve serves one caller over a pipe, until ctx ends or the caller closes in.
// A line that is no message is answered as such, and is not the end.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	replies := &replies{WriteCloser: out}
	lines := &lines{Closer: in, in: bufio.NewReader(in), out: replies, most: int(s.cfg.MaxBody)}
	err := s.sdk.Run(ctx, &sdk.IOTransport{Reader: lines, Writer: replies})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// replies are whole lines, by whoever writes.
type replies struct {
	mu sync.Mutex
	io.WriteCloser
}

func (r *replies) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.WriteCloser.Write(p)
}

// lines has the SDK read messages, each in a line, and nothing else: what is
// none would be the last that it reads.
type lines struct {
	io.Closer
	in   *bufio.Reader
	out  io.Writer
	most int

	ready []byte
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.ready) == 0 {
		line, long, err := l.next()
		if err != nil {
			return 0, err
		}
		if err := l.take(line, long); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// next reads a line, of which only so much is kept as a message can have.
func (l *lines) next() (line []byte, long bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > l.most; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && (long || len(line) > 0):
			return line, long, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

// take has a line be read if it has messages, and answers it if it has none.
func (l *lines) take(line []byte, long bool) error {
	line = bytes.TrimSpace(line)
	if long {
		return l.refuse(&badMessage{nil, jsonrpc.CodeInvalidRequest, tooLong(int64(l.most))})
	}
	if len(line) == 0 {
		return nil
	}
	if _, bad := look(line); bad != nil {
		return l.refuse(bad)
	}
	batch := []json.RawMessage{line}
	if line[0] == '[' { // one by one, as not every version has them together
		if err := json.Unmarshal(line, &batch); err != nil {
			return err
		}
	}
	for _, message := range batch {
		if _, err := jsonrpc.DecodeMessage(message); err != nil { // which would be the end, as of what is nested too deeply
			return l.refuse(invalid(nil, err.Error()))
		}
		l.ready = append(append(l.ready, message...), '\n')
	}
	return nil
}

func (l *lines) refuse(bad *badMessage) error {
	_, err := l.out.Write(append(encode(bad.id, "error", bad.wire()), '\n'))
	return err
}
