package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

func (c Contract) pauses(t *testing.T) {
	if _, able := c.Sandboxes.(sandbox.Pauser); !able {
		t.Run("no Pauser", c.noPauser)
		return
	}
	t.Run("without a volume", c.pauseNoVolume)
	t.Run("keeps the files", c.pauseKeeps)
	t.Run("what a parked sandbox takes", c.parked)
	t.Run("project", c.pauseProject)
	t.Run("under open files and connections", c.pauseOpen)
	t.Run("at once", c.pauseAtOnce)
}

func (c Contract) noPauser(t *testing.T) {
	is := is.New(t)
	sb := c.leaseOf(t, withDisk)
	is.True(errors.Is(sb.Pause(bounded(t)), errors.ErrUnsupported))
	is.True(errors.Is(sb.Resume(bounded(t)), errors.ErrUnsupported))
	is.Equal(describe(t, sb).Status, sandbox.StatusRunning)
}

func withDisk(s *sandbox.Spec) { s.Disk = true }

// pause pauses a sandbox.
func pause(t *testing.T, sb *sandbox.Sandbox) {
	t.Helper()
	if err := within(t, limit, func() error { return sb.Pause(context.Background()) }); err != nil {
		t.Fatal(err)
	}
}

// resume resumes a sandbox.
func resume(t *testing.T, sb *sandbox.Sandbox) {
	t.Helper()
	if err := within(t, limit, func() error { return sb.Resume(context.Background()) }); err != nil {
		t.Fatal(err)
	}
}

func (c Contract) pauseNoVolume(t *testing.T) {
	is := is.New(t)
	sb := c.lease(t)
	write(t, sb, "file", "x", 0o644)
	r := start(t.Context(), t, sb.Command("sh", "-c", "echo up; cat file; sleep 60"))
	conflictOf(t, sb.Pause(bounded(t)), sb, sandbox.StatusRunning)
	select {
	case err := <-r.done:
		t.Fatalf("the command has ended: %v", err)
	default: // nothing has happened to it
	}
	before := describe(t, sb)
	is.NoErr(sb.Resume(bounded(t))) // it runs: as it is
	is.True(describe(t, sb).Expires.Equal(before.Expires))
	is.Equal(read(t, sb, "file"), "x")
	is.NoErr(end(t, sb))
	is.Equal(exitOf(t, await(t, soon, r.done)).Cause, sandbox.CauseEnded)
}

func (c Contract) pauseKeeps(t *testing.T) {
	is := is.New(t)
	const ttl = 10 * time.Minute
	sb := c.leaseOf(t, func(s *sandbox.Spec) { s.Disk, s.TTL = true, ttl })
	before := describe(t, sb)
	is.Equal(lengthOf(before), ttl)
	is.True(before.Volume != "")
	write(t, sb, "dir/file", "kept", 0o640)
	outputOf(t, sb, "sh", "-c", "ln -s dir/file link; echo lost > /tmp/lost")
	r := start(context.Background(), t, sleeper(sb))

	pause(t, sb)
	err := await(t, soon, r.done)
	is.Equal(exitOf(t, err).Cause, sandbox.CausePaused)
	is.True(errors.Is(err, sandbox.ErrConflict))
	is.Equal(r.String(), "up\n")
	pause(t, sb) // twice is no error
	parked := describe(t, sb)
	is.Equal(parked.Status, sandbox.StatusParked)
	is.True(parked.Expires.IsZero()) // it has no end

	resume(t, sb)
	resume(t, sb) // nor is this
	after := describe(t, sb)
	is.Equal(after.Status, sandbox.StatusRunning)
	is.Equal(after.Workdir, before.Workdir)
	is.Equal(after.Volume, before.Volume)
	is.True(!after.Created.Before(before.Created))
	is.True(lengthOf(after) != ttl && lengthOf(after) == lengthOf(describe(t, c.lease(t)))) // its class's, from now

	is.Equal(read(t, sb, "link"), "kept")
	is.Equal(stat(t, sb, "dir/file").Mode(), fs.FileMode(0o640))
	outputOf(t, sb, "sh", "-c", "echo more > dir/file")            // they are the user's still
	is.Equal(outputOf(t, sb, "printenv", "FROM_LEASE"), "lease\n") // the environment is the lease's
	lost := exitOf(t, sb.Command("cat", "/tmp/lost").Run(bounded(t)))
	is.Equal(lost.Cause, sandbox.CauseExit) // all else is gone, and a program's end is its own again
}

func (c Contract) parked(t *testing.T) {
	is := is.New(t)
	sb := c.leaseOf(t, withDisk)
	write(t, sb, "file", "kept", 0o644)
	pause(t, sb)
	for name, err := range uses(t, sb) {
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		t.Run(name, func(t *testing.T) { conflictOf(t, err, sb, sandbox.StatusParked) })
	}
	is.Equal(describe(t, sb).Status, sandbox.StatusParked) // to ask does not wake it
	handle, err := c.Sandboxes.Attach(bounded(t), sb.ID())
	is.NoErr(err)
	is.Equal(handle.ID(), sb.ID())

	same := c.leaseOf(t, func(s *sandbox.Spec) { s.ID, s.Class = sb.ID(), sandbox.ClassDev })
	is.Equal(same.ID(), sb.ID())
	is.Equal(describe(t, sb).Status, sandbox.StatusRunning) // to come back does
	is.Equal(read(t, same, "file"), "kept")
	pause(t, sb)
	is.NoErr(end(t, sb)) // it can end as it is
	c.isGone(t, sb)
	c.leasesAnew(t, sb.ID(), sb)
}

func (c Contract) pauseProject(t *testing.T) {
	is := is.New(t)
	project := newProject()
	sb := c.leaseOf(t, dev(project))
	write(t, sb, "file", "kept", 0o644)
	pause(t, sb)
	_, err := c.tryLease(t, dev(project))
	conflictOf(t, err, sb, sandbox.StatusParked) // the project is its own still
	is.NoErr(end(t, sb))
	next := c.leaseOf(t, dev(project))
	is.Equal(read(t, next, "file"), "kept") // also what it had when it was parked
	if _, able := c.Sandboxes.(sandbox.Purger); !able {
		return
	}
	pause(t, next)
	is.NoErr(next.Purge(bounded(t)))
	c.isGone(t, next)
	is.Equal(len(list(t, c.leaseOf(t, dev(project)), ".")), 0)
}

func (c Contract) pauseOpen(t *testing.T) {
	is := is.New(t)
	sb := c.leaseOf(t, withDisk)
	c.breakOff(t, sb, sb.Pause)
	resume(t, sb)
	is.True(read(t, sb, "large") == pattern(8<<20, 0))
	_, err := sb.FS(bounded(t)).Open("new")
	is.True(errors.Is(err, fs.ErrNotExist))       // not half of it
	is.Equal(list(t, sb, "."), []string{"large"}) // nor under another name
	if _, able := c.Sandboxes.(sandbox.PortLister); able {
		ports, err := sb.Ports(bounded(t))
		is.NoErr(err)
		is.Equal(len(ports), 0) // who listened is gone
	}
	if _, able := c.Sandboxes.(sandbox.Dialer); able {
		c.listen(t, sb, portA) // which leaves the port to others
		is.NoErr(says(dial(t, sb), "hello"))
	}
}

// pauseAtOnce has pauses and resumes get in each other's way.
func (c Contract) pauseAtOnce(t *testing.T) {
	is := is.New(t)
	sb := c.leaseOf(t, withDisk)
	write(t, sb, "file", "kept", 0o644)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			if i%2 == 0 {
				errs[i] = sb.Pause(bounded(t))
			} else {
				errs[i] = sb.Resume(bounded(t))
			}
		})
	}
	wg.Wait()
	is.NoErr(errors.Join(errs...)) // in whatever order, each is done
	resume(t, sb)
	is.Equal(read(t, sb, "file"), "kept")
}
