package sandboxtest

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

func (c Contract) leases(t *testing.T) {
	t.Run("come back by the id", c.comeBack)
	t.Run("nothing to come back to", c.nothingThere)
	t.Run("use lengthens", c.lengthened)
	t.Run("terminal", c.terminalSeen)
	t.Run("parked", c.leasedParked)
	if _, able := c.Sandboxes.(sandbox.Renewer); able {
		t.Run("renew", c.renew)
		return
	}
	t.Run("no Renewer", func(t *testing.T) {
		is := is.New(t)
		_, err := c.lease(t).Renew(bounded(t), time.Hour)
		is.True(errors.Is(err, errors.ErrUnsupported))
	})
}

// leasedParked takes a file for a sandbox that has not run, or says that it cannot.
func (c Contract) leasedParked(t *testing.T) {
	is := is.New(t)
	ctx := bounded(t)
	sb, err := c.tryLease(t, func(s *sandbox.Spec) { s.Parked = true })
	if _, able := c.Sandboxes.(sandbox.Stager); !able {
		is.True(errors.Is(err, errors.ErrUnsupported)) // and nothing is leased
		_, err := c.lease(t).Stage(ctx)
		is.True(errors.Is(err, errors.ErrUnsupported))
		return
	}
	is.NoErr(err)
	is.Equal(describe(t, sb).Status, sandbox.StatusParked)
	_, err = sb.FS(ctx).Open("file")
	is.True(errors.Is(err, sandbox.ErrConflict))
	stage, err := sb.Stage(ctx)
	is.NoErr(err)
	is.NoErr(stage.WriteFile(ctx, "file", strings.NewReader("staged"), 0o644))
	is.NoErr(stage.Close())
	same := c.leaseOf(t, func(s *sandbox.Spec) { s.ID = sb.ID() })
	is.Equal(same.ID(), sb.ID())
	is.Equal(read(t, sb, "file"), "staged")
	_, err = sb.Stage(ctx)
	is.True(errors.Is(err, sandbox.ErrConflict))
}

// comeBack comes back to a sandbox that runs, with a Spec whose rest would be
// refused.
func (c Contract) comeBack(t *testing.T) {
	is := is.New(t)
	sb := c.lease(t)
	before := describe(t, sb)
	write(t, sb, "file", "x", 0o644)
	same := c.leaseOf(t, func(s *sandbox.Spec) {
		s.ID, s.Class, s.TTL, s.Env = sb.ID(), sandbox.ClassDev, 2*time.Hour, []string{"FROM_LEASE=other"}
	})
	is.Equal(same.ID(), sb.ID())
	after := describe(t, same)
	is.Equal(after.Class, before.Class)
	is.Equal(after.Status, sandbox.StatusRunning)
	is.True(after.Created.Equal(before.Created))
	is.True(after.Expires.Equal(before.Expires)) // as it was, not a lease anew
	is.Equal(read(t, same, "file"), "x")
	is.Equal(outputOf(t, same, "printenv", "FROM_LEASE"), "lease\n")
}

func (c Contract) nothingThere(t *testing.T) {
	sb := c.lease(t)
	write(t, sb, "file", "x", 0o644)
	for name, id := range map[string]string{
		"unknown": strings.Repeat("x", 21),
		"no id":   "../" + sb.ID(),
	} {
		t.Run(name, func(t *testing.T) { c.leasesAnew(t, id, sb) })
	}
	t.Run("ended", func(t *testing.T) {
		is := is.New(t)
		is.NoErr(end(t, sb))
		c.leasesAnew(t, sb.ID(), sb)
	})
}

// leasesAnew wants a sandbox of its own for an id that leads to none.
func (c Contract) leasesAnew(t *testing.T, id string, old *sandbox.Sandbox) {
	t.Helper()
	is := is.New(t)
	sb := c.leaseOf(t, func(s *sandbox.Spec) { s.ID = id })
	is.True(idForm.MatchString(sb.ID()))
	is.True(sb.ID() != id && sb.ID() != old.ID())
	is.Equal(describe(t, sb).Status, sandbox.StatusRunning)
	_, err := sb.FS(bounded(t)).Open("file")
	is.True(errors.Is(err, fs.ErrNotExist)) // nothing of the other is in it
}

// lengthened runs a command that takes longer than the lease is.
func (c Contract) lengthened(t *testing.T) {
	is := is.New(t)
	sb := c.leaseOf(t, func(s *sandbox.Spec) { s.TTL = 4 * time.Second })
	before := describe(t, sb)
	longer := int(time.Until(before.Expires)/time.Second) + 2
	is.Equal(outputOf(t, sb, "sh", "-c", "sleep "+strconv.Itoa(longer)+"; echo over"), "over\n")
	is.True(!time.Now().Before(before.Expires)) // it would have ended
	after := describe(t, sb)
	is.Equal(after.Status, sandbox.StatusRunning)
	is.True(after.Expires.After(before.Expires.Add(limit))) // and will not soon
	is.True(!after.Used.Before(before.Expires.Truncate(time.Second)))
}

// terminalSeen compares times that may be of whole seconds.
func (c Contract) terminalSeen(t *testing.T) {
	is := is.New(t)
	sb := c.lease(t)
	is.NoErr(sb.Command("true").Run(bounded(t)))
	is.True(describe(t, sb).Connected.IsZero())
	before := time.Now().Truncate(time.Second)
	cmd := sb.Command("true")
	cmd.Terminal = sandbox.NewTerminal(24, 80)
	is.NoErr(cmd.Run(bounded(t)))
	info := describe(t, sb)
	is.True(!info.Connected.Before(before))
	is.True(!info.Used.Before(before))
}

func (c Contract) renew(t *testing.T) {
	is := is.New(t)
	const ttl = 10 * time.Minute
	sb := c.leaseOf(t, func(s *sandbox.Spec) { s.TTL = ttl })
	renew := func(ttl time.Duration) time.Time {
		end, err := sb.Renew(bounded(t), ttl)
		is.NoErr(err)
		is.True(end.Equal(describe(t, sb).Expires))
		return end
	}
	first := describe(t, sb).Expires
	outputOf(t, sb, "sleep", "1") // until the clock shows another second
	again := renew(0)
	is.True(again.After(first)) // as long as it was taken for, but from now
	is.True(time.Until(again) > ttl-limit && time.Until(again) <= ttl)
	hour := renew(time.Hour)
	is.True(time.Until(hour) > time.Hour-limit && time.Until(hour) <= time.Hour)
	is.True(renew(time.Minute).Equal(hour)) // never shorter
	longest := renew(1000 * time.Hour)
	is.True(longest.After(hour))
	is.True(time.Until(longest) < 1000*time.Hour-limit) // there is a longest life
	is.True(renew(2000 * time.Hour).Equal(longest))     // from the lease, not from now
	_, err := sb.Renew(bounded(t), -time.Second)
	is.True(errors.Is(err, sandbox.ErrInvalid))
	is.True(describe(t, sb).Expires.Equal(longest))
}
