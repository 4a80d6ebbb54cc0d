package exec

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A session is a sandbox that runs, or is to: then its files are a Stage.
type session struct {
	*sandbox.Sandbox
	work  string // its working directory
	stage sandbox.Stage
	fresh bool // it was leased for this call
}

// files are those of the session, for reading.
func (s *session) files(ctx context.Context) fs.FS {
	if s.stage != nil {
		return s.stage
	}
	return s.FS(ctx)
}

// WriteFile makes or replaces a file.
func (s *session) WriteFile(ctx context.Context, name string, src io.Reader, perm fs.FileMode) error {
	if s.stage != nil {
		return s.stage.WriteFile(ctx, name, src, perm)
	}
	return s.Sandbox.WriteFile(ctx, name, src, perm)
}

// close gives back what an upload holds of the session.
func (s *session) close() error {
	if s.stage == nil {
		return nil
	}
	return s.stage.Close()
}

// discard ends a session that nobody knows of, as what it was leased for has
// failed.
func (s *session) discard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	s.End(ctx) //nolint:errcheck // its lease ends it then
}

// discardTimeout bounds it.
const discardTimeout = 10 * time.Second

// receive returns the session id, or a fresh one, for a file to be put there.
// One that has not run yet need not for that.
func (it *Interpreter) receive(ctx context.Context, id string) (*session, error) {
	sb, err := it.parked(ctx, id)
	if err == nil && sb != nil {
		s := &session{Sandbox: sb, fresh: id == ""}
		if err = s.enter(ctx); err == nil {
			return s, nil
		}
		if s.fresh {
			s.discard(ctx)
		}
	}
	if id != "" && isGone(err) {
		return it.receive(ctx, "")
	}
	if err == nil || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, sandbox.ErrConflict) {
		return it.open(ctx, id, "")
	}
	return nil, err
}

// readable returns the session id for a file to be taken from there. One that
// has not run yet need not for that.
func (it *Interpreter) readable(ctx context.Context, id string) (*session, error) {
	if sb, err := it.parked(ctx, id); err == nil && sb != nil {
		s := &session{Sandbox: sb}
		if s.enter(ctx) == nil {
			return s, nil
		}
	}
	return it.existing(ctx, id)
}

// parked returns the session id if it is parked, and a fresh one that is if
// there is no id; or nil.
func (it *Interpreter) parked(ctx context.Context, id string) (*sandbox.Sandbox, error) {
	if id == "" && it.cfg.Spec.Project != "" {
		return nil, nil //nolint:nilnil // the project's volume has files of programs
	}
	if id == "" {
		spec := it.cfg.Spec
		spec.Parked = true
		return it.sandboxes.Lease(ctx, spec)
	}
	sb, err := it.sandboxes.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil || info.Status != sandbox.StatusParked {
		return nil, err
	}
	return sb, nil
}

// enter has the files of a session that is parked be a Stage.
func (s *session) enter(ctx context.Context) error {
	info, err := s.Info(ctx)
	if err == nil {
		s.work = info.Workdir
		s.stage, err = s.Stage(ctx)
	}
	return err
}

// open returns the session id, running, or a fresh one if there is none of
// that id, or no longer.
func (it *Interpreter) open(ctx context.Context, id, image string) (*session, error) {
	if id != "" {
		s, err := it.attach(ctx, id)
		if err == nil || !isGone(err) && !errors.Is(err, sandbox.ErrConflict) {
			return s, err
		}
	}
	spec := it.cfg.Spec
	spec.ID = id
	if image != "" {
		spec.Image = image
	}
	sb, err := it.sandboxes.Lease(ctx, spec)
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	return &session{Sandbox: sb, work: info.Workdir, fresh: sb.ID() != id}, nil
}

// attach returns the session id if it runs.
func (it *Interpreter) attach(ctx context.Context, id string) (*session, error) {
	sb, err := it.sandboxes.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}
	switch info.Status {
	case sandbox.StatusRunning:
		return &session{Sandbox: sb, work: info.Workdir}, nil
	case sandbox.StatusError:
		return nil, &sandbox.Error{Op: "attach", ID: id, Err: sandbox.ErrLost}
	default:
		return nil, &sandbox.ConflictError{ID: id, Status: info.Status, Why: "session is " + string(info.Status)}
	}
}

// existing returns the session id, running; one that is parked is resumed.
func (it *Interpreter) existing(ctx context.Context, id string) (*session, error) {
	s, err := it.attach(ctx, id)
	if !errors.Is(err, sandbox.ErrConflict) {
		return s, err
	}
	sb, err := it.sandboxes.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := sb.Resume(ctx); err != nil {
		return nil, err
	}
	return it.attach(ctx, id)
}

// isGone reports whether err says that there is no such session any more.
func isGone(err error) bool {
	return errors.Is(err, sandbox.ErrNotFound) || errors.Is(err, sandbox.ErrEnded) || errors.Is(err, sandbox.ErrLost)
}

// abs is the absolute path of a file in the session.
func (s *session) abs(rel string) string { return path.Join(s.work, rel) }

// writeOwn writes a file into the interpreter's folder. What a program may
// have put in the way is removed.
func (s *session) writeOwn(ctx context.Context, name, content string) error {
	err := s.WriteFile(ctx, name, strings.NewReader(content), 0o644)
	if err == nil || isSession(err) || s.stage != nil {
		return err
	}
	if e := s.RemoveAll(ctx, ownDir); e != nil {
		return err
	}
	return s.WriteFile(ctx, name, strings.NewReader(content), 0o644)
}

// copyFile copies a file of one session to another, or within one, as a stream
// through a buffer or two. It returns the hash of what it copied.
func copyFile(ctx context.Context, from *session, src string, to *session, dst string) (hash string, size int64, err error) {
	f, err := from.files(ctx).Open(src)
	if err != nil {
		return "", 0, &readError{err}
	}
	defer f.Close()
	h := newHasher(f)
	if err := to.WriteFile(ctx, dst, h, 0o644); err != nil {
		if h.err != nil && !errors.Is(h.err, io.EOF) {
			err = &readError{h.err}
		}
		return "", 0, err
	}
	return h.sum(), h.size, nil
}

// A readError is one of the file that is read, not of the one that is written.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }
func (e *readError) Unwrap() error { return e.err }
