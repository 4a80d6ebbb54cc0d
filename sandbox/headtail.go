package sandbox

import "fmt"

// A headTail keeps the first and last bytes of a stream, as the middle of a
// long complaint says least.
type headTail struct {
	limit   int // of each end
	head    []byte
	tail    []byte // the last bytes: tail[next:] then tail[:next] once it is full
	next    int
	dropped int64
}

func (h *headTail) Write(p []byte) (int, error) {
	n := len(p)
	room := min(h.limit-len(h.head), len(p))
	h.head = append(h.head, p[:room]...)
	p = p[room:]
	for len(p) > 0 {
		if len(h.tail) < h.limit {
			room := min(h.limit-len(h.tail), len(p))
			h.tail = append(h.tail, p[:room]...)
			p = p[room:]
			continue
		}
		m := copy(h.tail[h.next:], p)
		h.next = (h.next + m) % h.limit
		h.dropped += int64(m)
		p = p[m:]
	}
	return n, nil
}

func (h *headTail) bytes() []byte {
	b := append([]byte(nil), h.head...)
	if h.dropped > 0 {
		b = fmt.Appendf(b, "\n... %d bytes left out ...\n", h.dropped)
	}
	b = append(b, h.tail[h.next:]...)
	return append(b, h.tail[:h.next]...)
}
