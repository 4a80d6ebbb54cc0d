package exec

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/hanzoai/sandbox/internal/headtail"
)

// An output keeps the head and the tail of what a program writes, and passes
// all of it on to a writer of the caller's, if there is one.
type output struct {
	live chan io.Writer // has the caller's writer while nobody writes to it; nil if there is none

	mu   sync.Mutex
	kept headtail.Buffer
}

func newOutput(limit int, live io.Writer) *output {
	o := &output{kept: headtail.Buffer{Limit: max(limit/2, 1)}}
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
	o.kept.Write(p) //nolint:errcheck // it never fails
}

// note adds a line of the interpreter's own.
func (o *output) note(ctx context.Context, format string, args ...any) {
	line := fmt.Sprintf("exec: "+format+"\n", args...)
	o.mu.Lock()
	if last := o.kept.Last(); last != 0 && last != '\n' {
		line = "\n" + line
	}
	o.mu.Unlock()
	o.say(ctx, line)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept.Bytes())
}
