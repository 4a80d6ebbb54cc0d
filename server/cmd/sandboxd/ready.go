package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A readiness knows whether sandboxes can be had here, from having run a
// program in one.
type readiness struct {
	runtime *sandbox.Runtime
	ended   atomic.Bool

	mu   sync.Mutex // held while it is tried: others wait for the outcome
	good time.Time
}

const (
	// staleAfter is how long a success counts.
	staleAfter = time.Minute
	tryTimeout = 30 * time.Second
)

var errEnding = errors.New("shutting down")

// check implements server.Config.Ready.
func (r *readiness) check(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.Load() {
		return errEnding
	}
	if time.Since(r.good) < staleAfter {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if err := r.try(ctx); err != nil {
		return err
	}
	r.good = time.Now()
	return nil
}

// try leases a sandbox that nobody can see, runs a program in it and ends it.
func (r *readiness) try(ctx context.Context) error {
	sb, err := r.runtime.Lease(ctx, sandbox.Spec{TTL: tryTimeout, Fixed: true})
	if err != nil {
		return err
	}
	err = sb.Command("true").Run(ctx)
	return errors.Join(err, sb.End(context.WithoutCancel(ctx)))
}

// end has it be over for good.
func (r *readiness) end() { r.ended.Store(true) }
