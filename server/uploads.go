package server

import (
	"context"
	"slices"
	"sync"
)

// uploads are the files on their way in, by sandbox and name. A caller that
// breaks one off wants to know when nothing is left of it: that its connection
// is gone is noticed here only after a while.
type uploads struct {
	mu     sync.Mutex
	byName map[string]*upload
	// early are the latest that were broken off before they began: the word
	// that one is over can come sooner than its first byte.
	early []string
}

type upload struct {
	cancel context.CancelFunc
	over   chan struct{}
}

// maxEarly bounds what is remembered of uploads that never were.
const maxEarly = 256

func newUploads() *uploads { return &uploads{byName: map[string]*upload{}} }

// enter begins an upload, whose context ends when it is broken off, and leave
// ends it. Of two with one name only the first is known.
func (u *uploads) enter(ctx context.Context, name string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	one := &upload{cancel: cancel, over: make(chan struct{})}
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.early, name); i >= 0 {
		u.early = slices.Delete(u.early, i, i+1)
		cancel()
		return ctx, cancel
	}
	if u.byName[name] != nil {
		return ctx, cancel
	}
	u.byName[name] = one
	return ctx, func() {
		cancel()
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.byName, name)
		close(one.over)
	}
}

// cancel breaks an upload off and returns when nothing of it is left. One that
// is over is fine, and one that has not begun will not.
func (u *uploads) cancel(ctx context.Context, name string) error {
	one := u.find(name)
	if one == nil {
		return nil
	}
	one.cancel()
	select {
	case <-one.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find finds an upload under way, or remembers that it is not to begin.
func (u *uploads) find(name string) *upload {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.byName[name]; one != nil {
		return one
	}
	if u.early = append(u.early, name); len(u.early) > maxEarly {
		u.early = u.early[1:]
	}
	return nil
}
