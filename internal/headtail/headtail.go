// Package headtail keeps the first and last bytes of a stream, as the middle of
// what is too long says least.
package headtail

import "fmt"

// A Buffer keeps what is written to it, of more than twice Limit the head and
// the tail. It is not safe for concurrent use.
type Buffer struct {
	Limit int // of each end, in bytes; more than 0

	head    []byte
	tail    []byte // the last bytes: tail[next:] then tail[:next] once it is full
	next    int
	dropped int64
}

// Write never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	n := len(p)
	room := min(b.Limit-len(b.head), len(p))
	b.head = append(b.head, p[:room]...)
	p = p[room:]
	for len(p) > 0 {
		if len(b.tail) < b.Limit {
			room := min(b.Limit-len(b.tail), len(p))
			b.tail = append(b.tail, p[:room]...)
			p = p[room:]
			continue
		}
		m := copy(b.tail[b.next:], p)
		b.next = (b.next + m) % b.Limit
		b.dropped += int64(m)
		p = p[m:]
	}
	return n, nil
}

// Last is the last byte that was written, or 0.
func (b *Buffer) Last() byte {
	switch {
	case len(b.tail) > 0:
		return b.tail[(b.next+len(b.tail)-1)%len(b.tail)]
	case len(b.head) > 0:
		return b.head[len(b.head)-1]
	}
	return 0
}

// Bytes is a copy of what is kept, with a line in the place of what is not.
func (b *Buffer) Bytes() []byte {
	all := append(make([]byte, 0, len(b.head)+len(b.tail)+64), b.head...)
	if b.dropped > 0 {
		all = fmt.Appendf(all, "\n... %d bytes left out ...\n", b.dropped)
	}
	all = append(all, b.tail[b.next:]...)
	return append(all, b.tail[:b.next]...)
}
