package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hanzoai/sandbox/internal/volume"
	"github.com/hanzoai/sandbox/sandbox"
)

// classes are those of a Runtime.
var classes = map[string]sandbox.Class{
	sandbox.ClassExec:    {TTL: 15 * time.Minute, Workdir: "/mnt/data", Ceiling: 16},
	sandbox.ClassDev:     {TTL: 4 * time.Hour, Workdir: "/work", NeedsProject: true},
	sandbox.ClassDesktop: {TTL: 4 * time.Hour, Workdir: "/work", NeedsProject: true, Screen: true},
}

// Lease is as of a Runtime. Every image is there, and all are the same.
func (m *Memory) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	s, err := m.lease(ctx, &spec)
	if err != nil {
		return nil, &sandbox.Error{Op: "lease", Err: err}
	}
	return sandbox.Handle(m, s.id), nil
}

func (m *Memory) lease(ctx context.Context, spec *sandbox.Spec) (*instance, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if spec.ID != "" {
		s, err := m.comeBack(spec.Owner, spec.ID)
		if s != nil || err != nil {
			return s, err
		}
	}
	if spec.Parked {
		return nil, errors.ErrUnsupported
	}
	if err := complete(spec); err != nil {
		return nil, err
	}
	s := newInstance(m, spec)
	if err := m.admit(s, spec.TTL); err != nil {
		return nil, err
	}
	return s, nil
}

// comeBack returns the sandbox with that id, running; or neither it nor an
// error if the owner has none, or no longer.
func (m *Memory) comeBack(owner sandbox.Owner, id string) (*instance, error) {
	s, err := m.find("lease", id)
	if err != nil || !covers(owner, s.owner) {
		return nil, nil //nolint:nilnil,nilerr // not to be had is no error here
	}
	if err = s.resume(); errors.Is(err, sandbox.ErrEnded) {
		return nil, nil //nolint:nilnil // it ended meanwhile
	}
	return s, err
}

// covers reports whether an owner may have what belongs to another.
func covers(o, other sandbox.Owner) bool {
	return o.Org == other.Org && (o.Actor == "" || o.Actor == other.Actor)
}

// complete checks a Spec and fills in its defaults.
func complete(spec *sandbox.Spec) error {
	if spec.Class == "" {
		spec.Class = sandbox.ClassExec
	}
	if spec.Image == "" {
		spec.Image = sandbox.HostImage
	}
	class, ok := classes[spec.Class]
	switch {
	case !ok:
		return fmt.Errorf("%w: class %.80q", sandbox.ErrInvalid, spec.Class)
	case class.NeedsProject && spec.Project == "":
		return fmt.Errorf("%w: class %s without a project", sandbox.ErrInvalid, spec.Class)
	case len(spec.Project) > 128 || !utf8.ValidString(spec.Project) || strings.ContainsFunc(spec.Project, unicode.IsControl):
		return fmt.Errorf("%w: project %.40q", sandbox.ErrInvalid, spec.Project)
	case spec.Network != "" && spec.Network != "none":
		return fmt.Errorf("%w: network %.40q", sandbox.ErrInvalid, spec.Network)
	case spec.TTL < 0:
		return fmt.Errorf("%w: a negative TTL", sandbox.ErrInvalid)
	case spec.TTL == 0:
		spec.TTL = class.TTL
	}
	spec.TTL = min(spec.TTL, maxLife)
	for _, kv := range spec.Env {
		if strings.IndexByte(kv, '=') <= 0 || strings.ContainsRune(kv, 0) {
			return fmt.Errorf("%w: environment entry %.40q", sandbox.ErrInvalid, kv)
		}
	}
	return nil
}

// admit lets a sandbox run, if its owner may have it. To look and to start it
// is one step, so of two at once that exclude each other one is refused.
func (m *Memory) admit(s *instance, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return sandbox.ErrClosed
	}
	live := 0
	for _, other := range m.instances {
		if other == s || other.owner.Org != s.owner.Org {
			continue
		}
		info := other.describe()
		if s.info.Project != "" && info.Project == s.info.Project {
			return &sandbox.ConflictError{ID: info.ID, Status: info.Status, Why: fmt.Sprintf(
				"project %.80q has sandbox %s, which is %s", info.Project, info.ID, info.Status)}
		}
		if info.Class == s.info.Class && info.Status == sandbox.StatusRunning {
			live++
		}
	}
	if c := classes[s.info.Class].Ceiling; c > 0 && s.owner.Org != "" && live >= c {
		return &sandbox.CeilingError{Org: s.owner.Org, Class: s.info.Class, Live: live, Ceiling: c}
	}
	if s.disk == nil {
		s.disk = m.diskOf(&s.info)
	}
	m.instances[s.id] = s
	s.start(ttl)
	return nil
}

// diskOf returns the disk of a new sandbox: its project's, or one of its own.
// The caller holds m.mu.
func (m *Memory) diskOf(info *sandbox.Info) *disk {
	if info.Project == "" {
		return newDisk()
	}
	d := m.disks[info.Volume]
	if d == nil {
		d = newDisk()
		m.disks[info.Volume] = d
	}
	return d
}

// volumeName names the volume that a sandbox is to have; "" is none.
func volumeName(id string, spec *sandbox.Spec) string {
	switch {
	case spec.Project != "":
		return volume.Name(spec.Owner.Org, spec.Project)
	case spec.Disk:
		return "disk-" + id
	}
	return ""
}
