//go:build linux

package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/workpath"
)

// leaseParked makes a sandbox that has no engine yet.
func (r *Runtime) leaseParked(spec *Spec, s *instance) error {
	s.row.Status, s.row.Staged, s.row.Env = StatusParked, true, spec.Env
	s.row.Expires = time.Time{}
	if err := r.enlist(s); err != nil {
		return err
	}
	r.step("park: begin")
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	r.step("park: folder")
	s.mu.Lock()
	s.note(EventLeased, "")
	s.mu.Unlock()
	if err := s.save(false); err != nil {
		return err
	}
	r.step("park: row")
	return nil
}

// stagedFactor is how many times Class.Ceiling an organisation may have
// sandboxes that nobody has come for yet: they cost disk, and no more.
const stagedFactor = 16

// enlist puts a sandbox on the list that is to have no engine for now.
func (r *Runtime) enlist(s *instance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	c, org, waiting := r.classes[s.row.Class], s.owner.Org, 0
	for _, other := range r.sandboxes {
		if other.owner.Org == org && other.waits(c.Name) {
			waiting++
		}
	}
	if most := stagedFactor * c.Ceiling; most > 0 && org != "" && waiting >= most {
		return &CeilingError{Org: org, Class: c.Name, Live: waiting, Ceiling: most}
	}
	r.sandboxes[s.id] = s
	return nil
}

// waits reports whether the sandbox is of a class, and has had no engine yet.
func (s *instance) waits(class string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.Staged && s.row.Class == class
}

// Stage implements Stager.
func (r *Runtime) Stage(ctx context.Context, id string) (Stage, error) {
	s, err := r.find("stage", id)
	if err != nil {
		return nil, err
	}
	var st *stage
	err = r.carryOut(ctx, func() (err error) {
		st, err = s.openStage()
		return err
	})
	if err != nil {
		return nil, opError("stage", id, err)
	}
	return st, nil
}

func (s *instance) openStage() (*stage, error) {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.mu.Lock()
	leaving, row := s.leaving, s.row
	s.mu.Unlock()
	switch {
	case leaving != nil:
		return nil, leaving
	case row.Status != StatusParked || !row.Staged:
		return nil, &ConflictError{ID: s.id, Status: row.Status, Why: "the sandbox has run: its files are opened inside"}
	}
	ctx, cancel := s.cleanup()
	defer cancel()
	dir, err := s.mount(ctx)
	if err != nil {
		return nil, err
	}
	s.runtime.step("stage: mounted")
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, errors.Join(err, s.unmount(ctx))
	}
	s.stages++
	return &stage{instance: s, root: root, workdir: row.Workdir}, nil
}

// closeStage unmounts the volume after the last Stage, unless it has an engine
// by now.
func (s *instance) closeStage() error {
	s.moving.Lock()
	defer s.moving.Unlock()
	s.stages--
	if s.stages > 0 || s.ended || s.status() != StatusParked {
		return nil
	}
	ctx, cancel := s.cleanup()
	defer cancel()
	return s.unmount(ctx)
}

// A stage is the folder of a volume. No program has ever written there, so
// there are the files and folders that were put there by this, and nothing
// else.
type stage struct {
	*instance
	root    *os.Root
	workdir string
	closing sync.Once
}

func (st *stage) Close() (err error) {
	st.closing.Do(func() {
		err = st.root.Close()
		if e := st.runtime.begin(); e != nil {
			return // it is Close, or Detach, that unmounts
		}
		defer st.runtime.tasks.Done()
		err = errors.Join(err, st.closeStage())
	})
	return err
}

// rel is the path of a name below the folder.
func (st *stage) rel(op, name string) (string, error) {
	full, err := workpath.Resolve(st.workdir, name)
	if err != nil {
		return "", invalidName(op, name, err)
	}
	if full == st.workdir {
		return ".", nil
	}
	if len(full) >= syscall.PathMax { // which nobody inside could name
		return "", &fs.PathError{Op: op, Path: name, Err: syscall.ENAMETOOLONG}
	}
	return full[len(st.workdir)+1:], nil
}

// named says an error in the caller's terms.
func (st *stage) named(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		err = l.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (st *stage) Open(name string) (fs.File, error) {
	rel, err := st.rel("open", name)
	if err != nil {
		return nil, err
	}
	f, err := st.root.Open(rel)
	if err != nil {
		return nil, st.named("open", name, err)
	}
	return &stagedFile{f, st, rel}, nil
}

func (st *stage) Tree(ctx context.Context, o TreeOptions) (*Tree, error) {
	o, err := completeTree(o)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: o.Dir, Err: err}
	}
	if o.Dir, err = st.rel("readdir", o.Dir); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return walkTree(st, o)
}

func (st *stage) Stat(name string) (fs.FileInfo, error) {
	rel, err := st.rel("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := st.root.Lstat(rel)
	if err != nil {
		return nil, st.named("stat", name, err)
	}
	return stagedInfo{info}, nil
}

func (st *stage) WriteFile(ctx context.Context, name string, src io.Reader, perm fs.FileMode) error {
	rel, err := st.rel("write", name)
	if err != nil {
		return err
	}
	if rel == "." {
		return invalidName("write", name, errors.New("the name of a directory where a file is wanted"))
	}
	if err := st.named("write", name, st.write(ctx, rel, src, perm)); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.instance.leaving != nil { // it has ended, and the file with it
		return &Error{Op: "write", ID: st.id, Err: st.leaving}
	}
	return nil
}

// write makes or replaces a file at once when it is complete.
func (st *stage) write(ctx context.Context, rel string, src io.Reader, perm fs.FileMode) (err error) {
	dir, err := st.folder(path.Dir(rel))
	if err != nil {
		return err
	}
	defer dir.Close()
	tmp := ".upload-" + rand.Text()
	f, err := dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = dir.Remove(tmp) // it goes with the sandbox, if need be
		}
	}()
	_, err = io.Copy(f, &boundReader{ctx, src})
	st.runtime.step("stage: written")
	err = errors.Join(err, f.Chown(defaultUID, defaultUID), f.Chmod(perm.Perm()&^0o022))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return dir.Rename(tmp, path.Base(rel))
}

// folder opens a folder, and makes what is missing of its path, for the
// sandbox's user. It goes down step by step: from the top, each of a thousand
// folders would be gone through a thousand times.
func (st *stage) folder(rel string) (*os.Root, error) {
	dir, err := st.root.OpenRoot(".")
	if err != nil || rel == "." {
		return dir, err
	}
	for name := range strings.SplitSeq(rel, "/") {
		next, err := makeFolder(dir, name)
		if err := errors.Join(err, dir.Close()); err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

func makeFolder(in *os.Root, name string) (*os.Root, error) {
	err := in.Mkdir(name, 0o755)
	if err == nil {
		err = in.Lchown(name, defaultUID, defaultUID)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if there, err := in.Lstat(name); err == nil && !there.IsDir() {
		return nil, syscall.ENOTDIR // as inside; OpenRoot has words of its own for it
	}
	return in.OpenRoot(name)
}

// A boundReader ends with a context, between two reads.
type boundReader struct {
	ctx context.Context //nolint:containedctx // it lives as long as one copy
	src io.Reader
}

func (r *boundReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.src.Read(p)
}
