package server

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hanzoai/sandbox/internal/problem"
)

// rates keep each credential to its rate of requests.
type rates struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

// maxBuckets bounds what is remembered of credentials; they are not guessed,
// but a token's subject is somebody else's choice.
const maxBuckets = 10_000

func newRates(l Limits) *rates {
	return &rates{rate: rate.Limit(l.Rate), burst: l.Burst, buckets: map[string]*rate.Limiter{}}
}

func (r *rates) take(name string) error {
	if r.bucket(name).Allow() {
		return nil
	}
	return problem.New(problem.RateLimited, "requests come faster than this credential may send them")
}

func (r *rates) bucket(name string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[name]
	if b == nil {
		if len(r.buckets) >= maxBuckets {
			clear(r.buckets)
		}
		b = rate.NewLimiter(r.rate, r.burst)
		r.buckets[name] = b
	}
	return b
}

// slots are how many commands, or shells of terminals, may run at a time.
type slots struct {
	wait   time.Duration
	perOrg int
	all    chan struct{}

	mu   sync.Mutex
	orgs map[string]*orgSlots
}

type orgSlots struct {
	taken chan struct{}
	users int // who waits or runs
}

func newSlots(l Limits) *slots {
	return &slots{wait: l.QueueTime, perOrg: l.OrgRuns, all: make(chan struct{}, l.Runs), orgs: map[string]*orgSlots{}}
}

// take waits for a slot, its organisation's own first: who has too many
// waits for their own, and holds up nobody else. The returned function gives
// it back.
func (s *slots) take(ctx context.Context, org string) (func(), error) {
	late := time.NewTimer(s.wait)
	defer late.Stop()
	o := s.enter(org)
	for i, slot := range []chan struct{}{o.taken, s.all} {
		select {
		case slot <- struct{}{}:
			continue
		default:
		}
		var err error
		select {
		case slot <- struct{}{}:
			continue
		case <-late.C:
			err = problem.New(problem.TooManyRuns, "too many of these run at the moment")
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if i > 0 {
			<-o.taken
		}
		s.leave(org, o)
		return nil, err
	}
	return func() {
		<-s.all
		<-o.taken
		s.leave(org, o)
	}, nil
}

func (s *slots) enter(org string) *orgSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orgs[org]
	if o == nil {
		o = &orgSlots{taken: make(chan struct{}, s.perOrg)}
		s.orgs[org] = o
	}
	o.users++
	return o
}

func (s *slots) leave(org string, o *orgSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.users--; o.users == 0 {
		delete(s.orgs, org)
	}
}
