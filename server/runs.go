package server

import (
	"context"
	"errors"
	"sync"
)

// runs are the commands under way, by sandbox, so that they can be stopped.
type runs struct {
	mu   sync.Mutex
	byID map[string]map[*run]struct{}
}

type run struct{ cancel context.CancelCauseFunc }

func newRuns() *runs { return &runs{byID: map[string]map[*run]struct{}{}} }

// errStopped ends a command that somebody stopped.
var errStopped = &stopped{errors.New("stopped by stop_run")}

// A stopped command was cancelled.
type stopped struct{ error }

func (s *stopped) Unwrap() error { return context.Canceled }

// enter begins a command, whose context ends when it is stopped, and leave
// ends it.
func (r *runs) enter(ctx context.Context, id string) (run context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, r.add(id, cancel)
}

func (r *runs) add(id string, cancel context.CancelCauseFunc) (leave func()) {
	one := &run{cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[id] == nil {
		r.byID[id] = map[*run]struct{}{}
	}
	r.byID[id][one] = struct{}{}
	return func() {
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byID[id], one)
		if len(r.byID[id]) == 0 {
			delete(r.byID, id)
		}
	}
}

// stop ends the commands in a sandbox and returns how many there were.
func (r *runs) stop(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.byID[id])
	for one := range r.byID[id] {
		one.cancel(errStopped)
	}
	delete(r.byID, id) // each counts once
	return n
}
