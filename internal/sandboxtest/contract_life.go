package sandboxtest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

func (c Contract) life(t *testing.T) {
	t.Run("what a lease cannot have", c.refusedLease)
	t.Run("unknown id", c.unknown)
	t.Run("description", c.info)
	t.Run("end during a command", c.endCommand)
	t.Run("end under open files and connections", c.endOpen)
	t.Run("end by time", c.endByTime)
}

func (c Contract) refusedLease(t *testing.T) {
	for name, spoil := range map[string]func(*sandbox.Spec){
		"class":                    func(s *sandbox.Spec) { s.Class = "nosuch" },
		"dev without a project":    func(s *sandbox.Spec) { s.Class, s.Project = sandbox.ClassDev, "" },
		"desktop without one":      func(s *sandbox.Spec) { s.Class, s.Project = sandbox.ClassDesktop, "" },
		"network":                  func(s *sandbox.Spec) { s.Network = "nosuch" },
		"negative TTL":             func(s *sandbox.Spec) { s.TTL = -time.Second },
		"environment without =":    func(s *sandbox.Spec) { s.Env = []string{"NAME"} },
		"environment without name": func(s *sandbox.Spec) { s.Env = []string{"=value"} },
		"NUL in the environment":   func(s *sandbox.Spec) { s.Env = []string{"NAME=\x00"} },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			_, err := c.tryLease(t, spoil)
			is.True(errors.Is(err, sandbox.ErrInvalid))
		})
	}
}

var idForm = regexp.MustCompile(`^[a-z0-9]{21}$`)

func (c Contract) unknown(t *testing.T) {
	is := is.New(t)
	for _, id := range []string{strings.Repeat("x", 21), "", "..", "../x", "a\x00", strings.Repeat("x", 10_000)} {
		_, err := c.Sandboxes.Attach(bounded(t), id)
		is.True(errors.Is(err, sandbox.ErrNotFound))
		is.True(len(err.Error()) < 200) // what is no id is not repeated at length
		for name, err := range calls(t, sandbox.Handle(c.Sandboxes, id)) {
			if !errors.Is(err, sandbox.ErrNotFound) && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s of the id %.30q: %v", name, id, err)
			}
		}
	}
}

// calls makes every call of a handle and returns the error of each.
func calls(t *testing.T, sb *sandbox.Sandbox) map[string]error {
	t.Helper()
	ctx := bounded(t)
	errs := uses(t, sb)
	_, errs["Info"] = sb.Info(ctx)
	errs["Pause"] = sb.Pause(ctx)
	errs["Resume"] = sb.Resume(ctx)
	errs["Purge"] = sb.Purge(ctx)
	errs["End"] = sb.End(ctx)
	return errs
}

// uses makes the calls that take a sandbox that runs.
func uses(t *testing.T, sb *sandbox.Sandbox) map[string]error {
	t.Helper()
	ctx := bounded(t)
	fsys := sb.FS(ctx)
	errs := map[string]error{
		"Run":       sb.Command("true").Run(ctx),
		"WriteFile": sb.WriteFile(ctx, "file", strings.NewReader("x"), 0o644),
		"Mkdir":     sb.Mkdir(ctx, "dir", 0o755),
		"Remove":    sb.Remove(ctx, "file"),
		"RemoveAll": sb.RemoveAll(ctx, "file"),
	}
	_, errs["Open"] = fsys.Open("file")
	_, errs["Stat"] = fs.Stat(fsys, "file")
	_, errs["Lstat"] = fs.Lstat(fsys, "file")
	if _, links := fsys.(fs.ReadLinkFS); links {
		_, errs["ReadLink"] = fs.ReadLink(fsys, "file")
	}
	_, errs["ReadDir"] = fs.ReadDir(fsys, ".")
	_, errs["Ports"] = sb.Ports(ctx)
	_, errs["DialContext"] = sb.DialContext(ctx, "tcp", "localhost:80")
	_, errs["Renew"] = sb.Renew(ctx, time.Hour)
	return errs
}

// info looks at a sandbox through its handles, then ends it.
func (c Contract) info(t *testing.T) {
	is := is.New(t)
	before := time.Now()
	sb := c.lease(t)
	info, err := sb.Info(bounded(t))
	is.NoErr(err)
	is.True(idForm.MatchString(sb.ID()))
	is.Equal(info.ID, sb.ID())
	is.Equal(info.Status, sandbox.StatusRunning)
	is.Equal(info.Class, sandbox.ClassExec)
	is.True(info.Image != "")
	is.True(strings.HasPrefix(info.Workdir, "/"))
	is.Equal(outputOf(t, sb, "pwd"), info.Workdir+"\n")
	is.True(info.Created.Sub(before).Abs() < limit)
	is.True(info.Expires.After(info.Created))
	is.True(!info.Used.Before(info.Created))
	is.Equal(info.Project, "")
	is.Equal(info.Volume, "") // nothing outlives it
	is.Equal(info.Error, "")

	other, err := c.Sandboxes.Attach(bounded(t), sb.ID())
	is.NoErr(err)
	is.Equal(other.ID(), sb.ID())
	write(t, sb, "file", "by one handle", 0o644)
	is.Equal(read(t, other, "file"), "by one handle") // both lead to the same sandbox

	is.NoErr(end(t, other))
	is.True(errors.Is(end(t, sb), sandbox.ErrEnded)) // a second end is told from a first
	c.isGone(t, sb)
}

// isGone wants nothing of a sandbox to be there any more.
func (c Contract) isGone(t *testing.T, sb *sandbox.Sandbox) {
	t.Helper()
	errs := calls(t, sb)
	_, errs["Attach"] = c.Sandboxes.Attach(bounded(t), sb.ID())
	for name, err := range errs {
		if !isOver(err) && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
}

func (c Contract) endCommand(t *testing.T) {
	is := is.New(t)
	sb := c.lease(t)
	r := start(t.Context(), t, sleeper(sb))
	is.NoErr(end(t, sb))
	err := await(t, soon, r.done)
	e := exitOf(t, err)
	is.Equal(e.Cause, sandbox.CauseEnded)
	is.True(errors.Is(err, sandbox.ErrEnded))
	is.Equal(r.String(), "up\n")
}

func (c Contract) endOpen(t *testing.T) {
	sb := c.lease(t)
	c.breakOff(t, sb, sb.End)
}

// breakOff stops a sandbox under an open file, a file that is being written
// and a connection.
func (c Contract) breakOff(t *testing.T, sb *sandbox.Sandbox, stop func(context.Context) error) {
	t.Helper()
	is := is.New(t)
	write(t, sb, "large", pattern(8<<20, 0), 0o644)
	f, err := sb.FS(t.Context()).Open("large")
	is.NoErr(err)
	defer f.Close()
	src, w := io.Pipe()
	defer w.Close()
	written := make(chan error, 1)
	go func() { written <- sb.WriteFile(context.Background(), "new", src, 0o644) }()
	is.NoErr(within(t, limit, func() error {
		_, err := io.WriteString(w, "half")
		return err
	}))
	_, dials := c.Sandboxes.(sandbox.Dialer)
	broken := func() error { return nil }
	if dials {
		c.listen(t, sb, portA)
		conn := dial(t, sb)
		is.NoErr(says(conn, "hello"))
		broken = func() error {
			_, err := conn.Read(make([]byte, 1))
			return err
		}
	}
	is.NoErr(within(t, limit, func() error { return stop(context.Background()) }))
	_, err = io.Copy(io.Discard, f)
	is.True(err != nil)                               // not a file that is shorter than it was
	is.True(await(t, soon, written) != nil)           // nor one that nobody will find
	is.True(!dials || within(t, soon, broken) != nil) // nor a connection to nowhere
}

// endByTime waits for the end of a lease by what it does to a command.
func (c Contract) endByTime(t *testing.T) {
	is := is.New(t)
	const ttl = 2 * time.Second
	sb := c.leaseOf(t, func(s *sandbox.Spec) { s.TTL, s.Fixed = ttl, true }) // a command that runs does not lengthen it
	info := describe(t, sb)
	is.Equal(lengthOf(info), ttl)
	r := start(context.Background(), t, sleeper(sb))
	err := await(t, time.Until(info.Expires)+2*soon, r.done)
	is.True(!time.Now().Before(info.Expires)) // not before its time
	is.True(errors.Is(err, sandbox.ErrEnded))
	is.Equal(exitOf(t, err).Cause, sandbox.CauseEnded)
	is.True(isOver(sb.Command("true").Run(bounded(t))))
}
