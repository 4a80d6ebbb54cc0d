package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"regexp"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// Sandboxes are those of one owner. A sandbox.Scope is.
type Sandboxes interface {
	sandbox.Driver
	Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error)
	Attach(ctx context.Context, id string) (*sandbox.Sandbox, error)
	List(ctx context.Context) iter.Seq2[sandbox.Info, error]
}

var _ Sandboxes = (*sandbox.Scope)(nil)

// Runtime is the Config.Sandboxes of a Runtime.
func Runtime(rt *sandbox.Runtime) func(sandbox.Owner) Sandboxes {
	return func(o sandbox.Owner) Sandboxes { return rt.For(o) }
}

// Config says what to serve and to whom. Without Keys, OIDC and ServiceKey
// nobody is let in.
type Config struct {
	// Sandboxes gives the view of one owner. It is required.
	Sandboxes func(sandbox.Owner) Sandboxes

	// Interpreter serves /v1/exec; without one those operations answer 501.
	Interpreter Interpreter

	// Keys knows our own keys.
	Keys Keys
	// OIDC names the issuer whose tokens are taken.
	OIDC OIDC
	// ServiceKey is taken in X-API-Key for /v1/exec and its files, and stands
	// for the organisation Brand, by default "default". Empty closes that
	// door.
	ServiceKey string
	Brand      string

	// Agents say how agents are served.
	Agents Agents

	// Ledger and Fees are the money; without a Ledger everything is free.
	Ledger Ledger
	Fees   Fees

	// Previews is where ports of sandboxes are shown: "https://*.example.com",
	// under a host of its own each, or "https://example.com", under a path
	// each of that host, which then serves nothing else. By default it is
	// "http://*.localhost", at the port that this server is reached at. It
	// should be no part of a site that has cookies; previews by paths are not
	// kept from each other, as they are one origin.
	Previews string
	// Frames are the sites, such as https://*.example.com, whose pages may
	// show terminals and screens in a frame; this server's own always may.
	Frames []string

	// Narrate is offered each run of run_in_sandbox that names a session.
	Narrate func(ctx context.Context, n Narration) Narrator

	// Ready says whether the server can serve, for /readyz; nil is yes.
	Ready func(ctx context.Context) error

	Limits Limits

	// Logger takes what callers are not told. Nil discards it. Bodies and
	// credentials are never logged.
	Logger *slog.Logger
}

// Limits bound what callers can ask for. Zero values are the defaults.
type Limits struct {
	// JSONBody bounds a JSON body, by default 4 MiB, and FileBody one that is
	// a file, by default 1 GiB.
	JSONBody, FileBody int64
	// BodyTime is how long a JSON body may take to arrive, or the request of a
	// command's socket, and how long a peer may take nothing of what a command
	// had to say that is over; 0 is 30 seconds.
	BodyTime time.Duration
	// StallTime is how long nothing may come of a body that is a file, and how
	// long a caller may take nothing of an answer, by default 5 minutes. A
	// stream of a command's output waits for its reader instead, as long as the
	// command may run.
	StallTime time.Duration
	// RunTime bounds a command, by default 15 minutes; callers can shorten it.
	// One with a terminal ends when its caller goes.
	RunTime time.Duration
	// Runs is how many commands run at a time in all, by default 256, and
	// OrgRuns those of one organisation, by default 64. More wait for up to
	// QueueTime, by default 5 seconds, and are then refused. As many shells of
	// terminals may run beside them, and are counted apart: those with a name
	// go on when nobody looks.
	Runs, OrgRuns int
	QueueTime     time.Duration
	// Rate is how many requests a second a key may make over time, by default
	// 2000, and Burst how many at once, by default twice that.
	Rate  float64
	Burst int
}

func (l *Limits) fill() {
	l.JSONBody = cmp.Or(l.JSONBody, 4<<20)
	l.FileBody = cmp.Or(l.FileBody, 1<<30)
	l.BodyTime = cmp.Or(l.BodyTime, 30*time.Second)
	l.StallTime = cmp.Or(l.StallTime, 5*time.Minute)
	l.RunTime = cmp.Or(l.RunTime, 15*time.Minute)
	l.Runs = cmp.Or(l.Runs, 256)
	l.OrgRuns = cmp.Or(l.OrgRuns, 64)
	l.QueueTime = cmp.Or(l.QueueTime, 5*time.Second)
	l.Rate = cmp.Or(l.Rate, 2000)
	l.Burst = cmp.Or(l.Burst, max(1, int(2*l.Rate)))
}

// frame is a site as a page's policy names it.
var frame = regexp.MustCompile(`^https?://(\*\.)?[A-Za-z0-9.-]+(:[0-9]{1,5})?$`)

func (c *Config) check() error {
	if c.Sandboxes == nil {
		return errors.New("server: Config.Sandboxes is required")
	}
	l := &c.Limits
	for _, n := range []int64{l.JSONBody, l.FileBody, int64(l.BodyTime), int64(l.StallTime), int64(l.RunTime), int64(l.Runs), int64(l.OrgRuns), int64(l.QueueTime), int64(l.Burst)} {
		if n < 0 {
			return errors.New("server: a negative limit")
		}
	}
	if !(l.Rate >= 0) || math.IsInf(l.Rate, 0) { // NaN is not
		return errors.New("server: Limits.Rate is to be a number of 0 or more")
	}
	if err := c.OIDC.check(); err != nil {
		return err
	}
	for _, site := range c.Frames {
		if !frame.MatchString(site) {
			return fmt.Errorf("server: Config.Frames: %.80q: want https://example.com, perhaps with *. before the name", site)
		}
	}
	return c.Fees.check()
}

func (c *Config) fill() {
	c.Limits.fill()
	c.Brand = cmp.Or(c.Brand, "default")
	c.Previews = cmp.Or(c.Previews, defaultPreviews)
	c.OIDC.OrgClaim = cmp.Or(c.OIDC.OrgClaim, "owner")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}
