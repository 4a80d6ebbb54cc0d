package sandboxtest

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

func (c Contract) projects(t *testing.T) {
	t.Run("one sandbox", c.oneSandbox)
	t.Run("files outlive the lease", c.filesOutlive)
	if _, able := c.Sandboxes.(sandbox.Purger); able {
		t.Run("purge", c.purge)
		return
	}
	t.Run("no Purger", func(t *testing.T) {
		is := is.New(t)
		sb := c.lease(t)
		is.True(errors.Is(sb.Purge(bounded(t)), errors.ErrUnsupported))
		is.Equal(describe(t, sb).Status, sandbox.StatusRunning) // not half of it either
	})
}

// newProject names a project that there is not, in a form that suits anybody.
func newProject() string { return "contract-" + strings.ToLower(rand.Text()) }

// dev leases a sandbox of class dev.
func dev(project string) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) { s.Class, s.Project = sandbox.ClassDev, project }
}

func (c Contract) oneSandbox(t *testing.T) {
	is := is.New(t)
	project := newProject()
	sb := c.leaseOf(t, dev(project))
	info := describe(t, sb)
	is.Equal(info.Class, sandbox.ClassDev)
	is.Equal(info.Project, project)
	is.Equal(info.Workdir, "/work")
	is.True(info.Volume != "")
	is.Equal(outputOf(t, sb, "pwd"), "/work\n")
	write(t, sb, "file", "x", 0o644)

	_, err := c.tryLease(t, dev(project))
	conflictOf(t, err, sb, sandbox.StatusRunning)
	_, err = c.tryLease(t, func(s *sandbox.Spec) { s.Project = project })
	conflictOf(t, err, sb, sandbox.StatusRunning) // whatever the class
	is.Equal(read(t, sb, "file"), "x")            // it has not been touched

	other := c.leaseOf(t, func(s *sandbox.Spec) { s.Project = newProject() })
	otherInfo := describe(t, other)
	is.Equal(otherInfo.Class, sandbox.ClassExec) // a project is of any class
	is.True(otherInfo.Volume != info.Volume)
	_, err = other.FS(bounded(t)).Open("file")
	is.True(errors.Is(err, fs.ErrNotExist))
}

func (c Contract) filesOutlive(t *testing.T) {
	is := is.New(t)
	project := newProject()
	sb := c.leaseOf(t, dev(project))
	write(t, sb, "dir/file", "kept", 0o640)
	outputOf(t, sb, "ln", "-s", "dir/file", "link")
	is.NoErr(end(t, sb))
	c.isGone(t, sb)

	next := c.leaseOf(t, func(s *sandbox.Spec) { s.ID, s.Class, s.Project = sb.ID(), sandbox.ClassDev, project })
	is.True(next.ID() != sb.ID()) // the project is what lasts, not the id
	is.Equal(read(t, next, "link"), "kept")
	is.Equal(stat(t, next, "dir/file").Mode(), fs.FileMode(0o640))
	outputOf(t, next, "sh", "-c", "echo more > dir/file") // and they are the user's still
}

func (c Contract) purge(t *testing.T) {
	is := is.New(t)
	project := newProject()
	sb := c.leaseOf(t, dev(project))
	write(t, sb, "file", "x", 0o644)
	r := start(t.Context(), t, sleeper(sb))
	is.NoErr(within(t, limit, func() error { return sb.Purge(t.Context()) }))
	is.Equal(exitOf(t, await(t, soon, r.done)).Cause, sandbox.CauseEnded) // as by End
	c.isGone(t, sb)

	next := c.leaseOf(t, dev(project))
	is.Equal(len(list(t, next, ".")), 0)
	plain := c.lease(t)
	is.NoErr(plain.Purge(bounded(t))) // without a project it is an End
	c.isGone(t, plain)
}
