package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A readiness knows whether sandboxes can be had here, from having run a
// program in one.
type readiness struct {
	runtime *sandbox.Runtime
	ended   chan struct{}
	close   func()

	mu   sync.Mutex // held while it is tried: others wait for the outcome
	good time.Time
}

func newReadiness(rt *sandbox.Runtime) *readiness {
	r := &readiness{runtime: rt, ended: make(chan struct{})}
	r.close = sync.OnceFunc(func() { close(r.ended) })
	return r
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
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	select {
	case <-r.ended:
		return errEnding
	default:
	}
	if time.Since(r.good) < staleAfter {
		return nil
	}
	tried := make(chan error, 1)
	go func() { tried <- r.try(ctx) }()
	select {
	case <-r.ended:
		cancel()
		<-tried
		return errEnding
	case err := <-tried:
		if err == nil {
			r.good = time.Now()
		}
		return err
	}
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

// end has it be over for good, and returns when nothing is tried any more:
// what a sandbox leaves half done would stay there until the next start.
func (r *readiness) end() {
	r.close()
	r.mu.Lock()
	defer r.mu.Unlock()
}
