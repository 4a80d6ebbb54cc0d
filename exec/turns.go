package exec

import (
	"context"
	"slices"
	"sync"
)

// turns lets one at a time have each key, in the order in which they came. It
// knows a key only while somebody has it.
type turns struct {
	mu      sync.Mutex
	waiting map[string][]chan struct{} // of the keys that somebody has, who comes next
}

func newTurns() *turns { return &turns{waiting: map[string][]chan struct{}{}} }

// take waits for the key's turn, which the returned function ends.
func (t *turns) take(ctx context.Context, key string) (done func(), err error) {
	done = func() { t.pass(key) }
	t.mu.Lock()
	queue, taken := t.waiting[key]
	if !taken {
		t.waiting[key] = nil
		t.mu.Unlock()
		return done, nil
	}
	mine := make(chan struct{})
	t.waiting[key] = append(queue, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return done, nil
	case <-ctx.Done():
		t.leave(key, mine)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) pass(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.waiting[key]
	if len(queue) == 0 {
		delete(t.waiting, key)
		return
	}
	close(queue[0])
	t.waiting[key] = queue[1:]
}

// leave gives up a place in the queue, or the turn, if it came meanwhile.
func (t *turns) leave(key string, mine chan struct{}) {
	t.mu.Lock()
	i := slices.Index(t.waiting[key], mine)
	if i >= 0 {
		t.waiting[key] = slices.Delete(t.waiting[key], i, i+1)
	}
	t.mu.Unlock()
	if i < 0 {
		t.pass(key)
	}
}
