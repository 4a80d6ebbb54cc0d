// Package sandboxtest holds what a sandbox.Driver promises, as tests, and
// Memory, a Driver without an engine that passes them.
package sandboxtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// Sandboxes are a Driver and the way to get its handles. A sandbox.Runtime, a
// sandbox.Scope and a Memory are.
type Sandboxes interface {
	sandbox.Driver
	Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error)
	Attach(ctx context.Context, id string) (*sandbox.Sandbox, error)
}

// A Contract is what Run needs to know of a Driver.
type Contract struct {
	// Sandboxes are what is tested. Of the optional abilities (FileSystem,
	// Dialer, PortLister, Pauser, Renewer, Purger) the tests cover those that
	// it implements; the handle has to say of the others that they are
	// missing. Its clocks are those of a sandbox.Config that sets none.
	Sandboxes Sandboxes

	// Spec is what the tests lease. They add to Env, and some set another
	// field: but for Image, Owner and Network it is best left zero. The
	// projects have names that nobody else has.
	Spec sandbox.Spec

	// Listen returns a command that listens on a port of the sandbox's
	// loopback, prints a line once it does, and sends each client back what
	// it gets until the client ends its own side. It may skip the test. Nil
	// is Memory's program of that name.
	Listen func(t *testing.T, sb *sandbox.Sandbox, port int) *sandbox.Cmd
}

// Run runs the contract. Its tests want these programs inside: sh, true,
// false, echo, printf, cat, tee, wc, sleep, printenv, env, pwd, ln.
//
// None of them sleeps, and none waits for ever: what hangs has failed.
func Run(t *testing.T, c Contract) {
	t.Run("exec", c.exec)
	t.Run("files", c.files)
	t.Run("ports", c.ports)
	t.Run("life", c.life)
	t.Run("lease", c.leases)
	t.Run("project", c.projects)
	t.Run("pause", c.pauses)
}

// limit is how long a step may take that should take a moment.
const limit = 20 * time.Second

// cases are tests that share a sandbox. Each keeps to file names of its own.
type cases []struct {
	name string
	test func(t *testing.T, sb *sandbox.Sandbox)
}

func (list cases) run(t *testing.T, sb *sandbox.Sandbox) {
	t.Helper()
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) { c.test(t, sb) })
	}
}

// leaseEnv is the environment of every lease.
var leaseEnv = []string{"FROM_LEASE=lease", "FROM_BOTH=lease"}

// lease returns a sandbox that ends with the test.
func (c Contract) lease(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	return c.leaseOf(t, func(*sandbox.Spec) {})
}

// leaseOf is lease with a Spec of the test's own.
func (c Contract) leaseOf(t *testing.T, edit func(*sandbox.Spec)) *sandbox.Sandbox {
	t.Helper()
	sb, err := c.tryLease(t, edit)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// tryLease is leaseOf for what may be refused. With the sandbox its project's
// files go, if the driver can do that.
func (c Contract) tryLease(t *testing.T, edit func(*sandbox.Spec)) (*sandbox.Sandbox, error) {
	t.Helper()
	spec := c.Spec
	spec.Env = slices.Concat(spec.Env, leaseEnv)
	edit(&spec)
	sb, err := c.Sandboxes.Lease(bounded(t), spec)
	if err != nil {
		return nil, err
	}
	end := sb.End
	if _, able := c.Sandboxes.(sandbox.Purger); able {
		end = sb.Purge
	}
	t.Cleanup(func() {
		err := within(t, limit, func() error { return end(context.Background()) })
		if err != nil && !isOver(err) {
			t.Error(err)
		}
	})
	return sb, nil
}

// end ends a sandbox.
func end(t *testing.T, sb *sandbox.Sandbox) error {
	t.Helper()
	return within(t, limit, func() error { return sb.End(context.Background()) })
}

// isOver reports whether err is the one for a sandbox that has ended. A driver
// need not remember for ever that it had it.
func isOver(err error) bool {
	return errors.Is(err, sandbox.ErrEnded) || errors.Is(err, sandbox.ErrNotFound)
}

// hostMarker is in this process's environment, and must not be seen inside.
const hostMarker = "SANDBOXTEST_HOST_MARKER"

func (c Contract) exec(t *testing.T) {
	t.Setenv(hostMarker, "leaked") // before the lease: an engine may pass on its own
	sb := c.lease(t)
	programCases.run(t, sb)
	streamCases.run(t, sb)
	cutCases.run(t, sb)
}

func (c Contract) files(t *testing.T) {
	sb := c.lease(t)
	_, able := c.Sandboxes.(sandbox.FileSystem)
	t.Run("FS is a file system", func(t *testing.T) { testFS(t, sb, able) })
	fileCases.run(t, sb)
	writeCases.run(t, sb)
	nameCases.run(t, sb)
	trackerCases.run(t, sb)
	if !able {
		t.Run("no FileSystem", func(t *testing.T) { noFileSystem(t, sb) })
		return
	}
	treeCases.run(t, sb)
	linkCases.run(t, sb)
}
