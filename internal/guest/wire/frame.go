// Package wire is the protocol between a Runtime and the init inside a
// sandbox: one connection carries one operation.
//
// The host sends one Request frame. What follows depends on the operation:
// frames for a command, a file or a listing; raw bytes for a dialled port.
// Both sides read through limits, since each is hostile to the other: the
// guest may have taken over its init, and a peer may be of another version.
//
// Signals, errors and resources have Linux's numbers in messages, and those of
// the system that this program runs on in the types here.
package wire

import (
	"errors"
	"io"
)

// Version is the protocol's version, the first byte of every Request. An init
// refuses what is newer than itself; a Runtime adopts inits that are older.
const Version = 1

const (
	// MaxRequest bounds a Request frame: argv and environment fit.
	MaxRequest = 4 << 20
	// MaxData bounds every other frame's payload.
	MaxData = 256 << 10
	// Window is how many bytes of a stream may be on their way: a receiver
	// has room for them, so no stream ever waits behind another.
	Window = 1 << 20

	headerLen = 5
)

// Kind says what a frame holds.
type Kind byte

// The kinds of frame. Their numbers are part of the protocol.
const (
	KindRequest Kind = iota + 1
	KindOK           // the operation began or succeeded; payload: a Reply
	KindError        // it failed; payload: an Error; nothing follows
	KindData         // bytes of a file or a listing
	KindEnd          // the file or listing is complete

	KindStdin  // to the command
	KindStdout // from the command
	KindStderr
	KindCloseStdin // end of file on the command's standard input
	KindCredit     // payload: Kind of the stream, uvarint of bytes consumed
	KindSignal     // payload: one byte
	KindResize     // payload: rows, columns, two bytes each
	KindClose      // payload: Kind of an output that the host takes no more of
	KindKill       // end the command with everything it started
	KindExit       // the command has ended; payload: an Exit; nothing follows
)

// ErrTooLong is returned for a frame that exceeds its limit.
var ErrTooLong = errors.New("frame exceeds its limit")

// A Reader reads frames.
type Reader struct {
	r   io.Reader
	buf []byte // what was read and not yet returned: buf[off:end]
	off int
	end int
}

// NewReader returns a Reader on r. It reads ahead, so the caller that turns to
// raw bytes must take what Buffered returns first.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: r, buf: make([]byte, 4<<10)}
}

// Next returns the next frame. Its payload is valid until the following call.
// A connection that ends between two frames is io.EOF, inside one
// io.ErrUnexpectedEOF.
func (r *Reader) Next() (Kind, []byte, error) {
	if err := r.fill(headerLen); err != nil {
		return 0, nil, err
	}
	kind := Kind(r.buf[r.off])
	n := int(le32(r.buf[r.off+1:]))
	limit := MaxData
	if kind == KindRequest {
		limit = MaxRequest
	}
	if n < 0 || n > limit {
		return 0, nil, ErrTooLong
	}
	if err := r.fill(headerLen + n); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	payload := r.buf[r.off+headerLen : r.off+headerLen+n]
	r.off += headerLen + n
	return kind, payload, nil
}

// Ready reports whether Next returns a frame without reading.
func (r *Reader) Ready() bool {
	have := r.end - r.off
	return have >= headerLen && have-headerLen >= int(le32(r.buf[r.off+1:]))
}

// Buffered returns the bytes that were read beyond the last frame.
func (r *Reader) Buffered() []byte { return r.buf[r.off:r.end] }

// fill makes at least n bytes available at off.
func (r *Reader) fill(n int) error {
	if r.end-r.off >= n {
		return nil
	}
	if r.off+n > len(r.buf) || r.off == r.end {
		r.compact(n)
	}
	for r.end-r.off < n {
		m, err := r.r.Read(r.buf[r.end:])
		r.end += m
		if m > 0 {
			continue
		}
		if err == nil {
			err = io.ErrNoProgress
		}
		if err == io.EOF && r.end > r.off {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return nil
}

// compact moves what is buffered to the front of a buffer that holds n bytes.
// The buffer grows to the size of frames that really come, so that a small
// operation costs a small one.
func (r *Reader) compact(n int) {
	buf := r.buf
	if n > len(buf) {
		buf = make([]byte, max(n, min(2*len(buf), MaxData+headerLen)))
	}
	r.end = copy(buf, r.buf[r.off:r.end])
	r.off, r.buf = 0, buf
}

// AppendFrame appends a frame to b.
func AppendFrame(b []byte, kind Kind, payload []byte) []byte {
	b = append(b, byte(kind), 0, 0, 0, 0)
	putLE32(b[len(b)-4:], uint32(len(payload)))
	return append(b, payload...)
}

// A Buffer is room for one data frame, filled in place so that a frame costs
// one copy and one write.
type Buffer []byte

// NewBuffer returns a Buffer for payloads of up to n bytes.
func NewBuffer(n int) Buffer { return make(Buffer, headerLen+n) }

// Payload is where the payload goes.
func (b Buffer) Payload() []byte { return b[headerLen:] }

// Frame returns the frame of the first n bytes of the payload.
func (b Buffer) Frame(kind Kind, n int) []byte {
	b[0] = byte(kind)
	putLE32(b[1:], uint32(n))
	return b[:headerLen+n]
}
