package server

import (
	"context"
	"sync"
)

// uploads are the files on their way in, by sandbox and name. A caller that
// breaks one off wants to know when nothing is left of it: that its connection
// is gone is noticed here only after a while.
type uploads struct {
	mu     sync.Mutex
	byName map[string]*upload
}

type upload struct {
	cancel context.CancelFunc
	over   chan struct{}
}

func newUploads() *uploads { return &uploads{byName: map[string]*upload{}} }

// enter begins an upload, whose context ends when it is broken off, and leave
// ends it. Of two with one name only the first is known.
func (u *uploads) enter(ctx context.Context, name string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	one := &upload{cancel: cancel, over: make(chan struct{})}
	u.mu.Lock()
	defer u.mu.Unlock()
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
// is over, or was never begun, is fine.
func (u *uploads) cancel(ctx context.Context, name string) error {
	u.mu.Lock()
	one := u.byName[name]
	u.mu.Unlock()
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
