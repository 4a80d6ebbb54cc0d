//go:build linux

package sandbox

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"net"
	"time"
)

// A Scope is a Runtime as one owner sees it: the only place where ownership
// is checked. A sandbox of another owner's is ErrNotFound in it, as is one
// that never was. It is a Driver with all optional abilities, and safe for
// concurrent use.
type Scope struct {
	runtime *Runtime
	owner   Owner
}

// Lease is Runtime.Lease for the owner, whatever Spec.Owner says.
func (s *Scope) Lease(ctx context.Context, spec Spec) (*Sandbox, error) {
	spec.Owner = s.owner
	sb, err := s.runtime.Lease(ctx, spec)
	if err != nil {
		return nil, err
	}
	return Handle(s, sb.ID()), nil
}

// Attach is Runtime.Attach for a sandbox of the owner's.
func (s *Scope) Attach(_ context.Context, id string) (*Sandbox, error) {
	if err := s.check("attach", id); err != nil {
		return nil, err
	}
	if _, err := s.runtime.find("attach", id); err != nil {
		return nil, err
	}
	return Handle(s, id), nil
}

// List lists the sandboxes of the owner, newest first.
func (s *Scope) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for info, err := range s.runtime.List(ctx) {
			if err == nil && !s.owns(info.Owner) {
				continue
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// owns reports whether the scope covers what belongs to o.
func (s *Scope) owns(o Owner) bool {
	return s.owner.covers(o)
}

// check returns ErrNotFound unless the sandbox is, or was, the owner's.
func (s *Scope) check(op, id string) error {
	if o, ok := s.runtime.ownerOf(id); ok && s.owns(o) {
		return nil
	}
	return &Error{Op: op, ID: shorten(id), Err: ErrNotFound}
}

func (r *Runtime) ownerOf(id string) (Owner, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil {
		return s.owner, true
	}
	o, ok := r.ended[id]
	return o, ok
}

var (
	_ Driver     = (*Scope)(nil)
	_ FileSystem = (*Scope)(nil)
	_ TreeLister = (*Scope)(nil)
	_ Dialer     = (*Scope)(nil)
	_ PortLister = (*Scope)(nil)
	_ Pauser     = (*Scope)(nil)
	_ Stager     = (*Scope)(nil)
	_ Renewer    = (*Scope)(nil)
	_ Purger     = (*Scope)(nil)
)

// Info implements Driver.
func (s *Scope) Info(ctx context.Context, id string) (Info, error) {
	if err := s.check("info", id); err != nil {
		return Info{}, err
	}
	return s.runtime.Info(ctx, id)
}

// Exec implements Driver.
func (s *Scope) Exec(ctx context.Context, id string, p *Process) (ExitStatus, error) {
	if err := s.check("exec", id); err != nil {
		return ExitStatus{}, err
	}
	return s.runtime.Exec(ctx, id, p)
}

// Open implements Driver.
func (s *Scope) Open(ctx context.Context, id, name string) (fs.File, error) {
	if err := s.check("open", id); err != nil {
		return nil, err
	}
	return s.runtime.Open(ctx, id, name)
}

// WriteFile implements Driver.
func (s *Scope) WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	if err := s.check("write", id); err != nil {
		return err
	}
	return s.runtime.WriteFile(ctx, id, name, src, perm)
}

// End implements Driver.
func (s *Scope) End(ctx context.Context, id string) error {
	if err := s.check("end", id); err != nil {
		return err
	}
	return s.runtime.End(ctx, id)
}

// Purge implements Purger.
func (s *Scope) Purge(ctx context.Context, id string) error {
	if err := s.check("purge", id); err != nil {
		return err
	}
	return s.runtime.Purge(ctx, id)
}

// Pause implements Pauser.
func (s *Scope) Pause(ctx context.Context, id string) error {
	if err := s.check("pause", id); err != nil {
		return err
	}
	return s.runtime.Pause(ctx, id)
}

// Resume implements Pauser.
func (s *Scope) Resume(ctx context.Context, id string) error {
	if err := s.check("resume", id); err != nil {
		return err
	}
	return s.runtime.Resume(ctx, id)
}

// Renew implements Renewer.
func (s *Scope) Renew(ctx context.Context, id string, ttl time.Duration) (time.Time, error) {
	if err := s.check("renew", id); err != nil {
		return time.Time{}, err
	}
	return s.runtime.Renew(ctx, id, ttl)
}

// Stage implements Stager.
func (s *Scope) Stage(ctx context.Context, id string) (Stage, error) {
	if err := s.check("stage", id); err != nil {
		return nil, err
	}
	return s.runtime.Stage(ctx, id)
}

// Stat implements FileSystem.
func (s *Scope) Stat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	if err := s.check("stat", id); err != nil {
		return nil, err
	}
	return s.runtime.Stat(ctx, id, name)
}

// Lstat implements FileSystem.
func (s *Scope) Lstat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	if err := s.check("lstat", id); err != nil {
		return nil, err
	}
	return s.runtime.Lstat(ctx, id, name)
}

// ReadLink implements FileSystem.
func (s *Scope) ReadLink(ctx context.Context, id, name string) (string, error) {
	if err := s.check("readlink", id); err != nil {
		return "", err
	}
	return s.runtime.ReadLink(ctx, id, name)
}

// ReadDir implements FileSystem.
func (s *Scope) ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error) {
	if err := s.check("readdir", id); err != nil {
		return nil, err
	}
	return s.runtime.ReadDir(ctx, id, name)
}

// Mkdir implements FileSystem.
func (s *Scope) Mkdir(ctx context.Context, id, name string, perm fs.FileMode, parents bool) error {
	if err := s.check("mkdir", id); err != nil {
		return err
	}
	return s.runtime.Mkdir(ctx, id, name, perm, parents)
}

// Remove implements FileSystem.
func (s *Scope) Remove(ctx context.Context, id, name string, tree bool) error {
	if err := s.check("remove", id); err != nil {
		return err
	}
	return s.runtime.Remove(ctx, id, name, tree)
}

// Tree implements TreeLister.
func (s *Scope) Tree(ctx context.Context, id string, o TreeOptions) (*Tree, error) {
	if err := s.check("readdir", id); err != nil {
		return nil, err
	}
	return s.runtime.Tree(ctx, id, o)
}

// Track implements TreeLister.
func (s *Scope) Track(ctx context.Context, id string, o TreeOptions) (Tracker, error) {
	if err := s.check("track", id); err != nil {
		return nil, err
	}
	return s.runtime.Track(ctx, id, o)
}

// DialContext implements Dialer.
func (s *Scope) DialContext(ctx context.Context, id, network, address string) (net.Conn, error) {
	if err := s.check("dial", id); err != nil {
		return nil, err
	}
	return s.runtime.DialContext(ctx, id, network, address)
}

// Ports implements PortLister.
func (s *Scope) Ports(ctx context.Context, id string) ([]int, error) {
	if err := s.check("ports", id); err != nil {
		return nil, err
	}
	return s.runtime.Ports(ctx, id)
}
