package exec

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// An output keeps the head and the tail of what a program writes, and passes
// all of it on to a writer of the caller's, if there is one.
type output struct {
	live chan io.Writer // has the caller's writer while nobody writes to it; nil if there is none

	mu      sync.Mutex
	half    int // bytes of each end that are kept
	head    []byte
	tail    []byte // the last bytes: tail[next:] then tail[:next] once it is full
	next    int
	dropped int64
}

func newOutput(limit int, live io.Writer) *output {
	o := &output{half: max(limit/2, 1)}
	if live != nil {
		o.live = make(chan io.Writer, 1)
		o.live <- live
	}
	return o
}

// Write never fails, so that no program finds its output closed: a live writer
// that fails gets no more.
func (o *output) Write(p []byte) (int, error) {
	o.keep(p)
	if o.live != nil {
		o.pass(<-o.live, p)
	}
	return len(p), nil
}

func (o *output) pass(live io.Writer, p []byte) {
	if n, err := live.Write(p); err != nil || n < len(p) {
		live = io.Discard
	}
	o.live <- live
}

// say adds what the program did not write. A live writer that blocks, or in
// which a write of the program's is stuck, is waited for until ctx ends.
func (o *output) say(ctx context.Context, text string) {
	o.keep([]byte(text))
	if o.live == nil || ctx.Err() != nil {
		return
	}
	select {
	case live := <-o.live:
		done := make(chan struct{})
		go func() {
			defer close(done)
			o.pass(live, []byte(text))
		}()
		select {
		case <-done:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

func (o *output) keep(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := min(o.half-len(o.head), len(p))
	o.head = append(o.head, p[:room]...)
	p = p[room:]
	for len(p) > 0 {
		if len(o.tail) < o.half {
			room := min(o.half-len(o.tail), len(p))
			o.tail = append(o.tail, p[:room]...)
			p = p[room:]
			continue
		}
		n := copy(o.tail[o.next:], p)
		o.next = (o.next + n) % o.half
		o.dropped += int64(n)
		p = p[n:]
	}
}

// note adds a line of the interpreter's own.
func (o *output) note(ctx context.Context, format string, args ...any) {
	line := fmt.Sprintf("exec: "+format+"\n", args...)
	o.mu.Lock()
	if last := o.last(); last != 0 && last != '\n' {
		line = "\n" + line
	}
	o.mu.Unlock()
	o.say(ctx, line)
}

// last is the last byte that was written, or 0.
func (o *output) last() byte {
	switch {
	case len(o.tail) > 0 && len(o.tail) == o.half:
		return o.tail[(o.next+o.half-1)%o.half]
	case len(o.tail) > 0:
		return o.tail[len(o.tail)-1]
	case len(o.head) > 0:
		return o.head[len(o.head)-1]
	}
	return 0
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := append(make([]byte, 0, len(o.head)+len(o.tail)+64), o.head...)
	if o.dropped > 0 {
		b = fmt.Appendf(b, "\n... %d bytes left out ...\n", o.dropped)
	}
	b = append(b, o.tail[o.next:]...)
	return string(append(b, o.tail[:o.next]...))
}
