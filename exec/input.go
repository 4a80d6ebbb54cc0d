package exec

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/hanzoai/sandbox/sandbox"
)

// An input is an Input on its way.
type input struct {
	Input
	source *source
	path   string      // in its own session
	info   fs.FileInfo // there
	err    error       // why it is not to be had

	name    string // where the program finds it
	session string // in which it does
	hash    string // of its content, if known
	size    int64
}

// carried reports whether the program finds a copy.
func (in *input) carried() bool { return in.source.id != in.session || in.path != in.name }

func (in *input) origin() *origin {
	return &origin{Session: in.source.id, Path: in.path, Size: in.info.Size(), Changed: changeTime(in.info)}
}

// carry puts the inputs where the program will look for them.
func (r *run) carry(ctx context.Context) error {
	if err := r.nameInputs(); err != nil {
		return err
	}
	var target *record
	for _, in := range r.inputs {
		if in.err != nil {
			continue
		}
		err := r.carryOne(ctx, in, &target)
		if isSession(err) && !isSource(err) {
			return err // it is about the session to run in, and there may be another
		}
		in.err = err
	}
	r.inputs = slices.DeleteFunc(r.inputs, func(in *input) bool {
		if in.err == nil {
			return false
		}
		r.result.Missing = append(r.result.Missing, in.name)
		r.stderr.note(ctx, "input %s is missing: %s", quote(in.name), reason(in.err))
		return true
	})
	return nil
}

func isSource(err error) bool {
	_, ok := errors.AsType[*readError](err)
	return ok
}

// nameInputs decides where each input goes. The last of a name counts.
func (r *run) nameInputs() error {
	last := map[string]*input{}
	for _, in := range r.inputs {
		in.session = r.session.ID()
		name := in.Name
		if name == "" {
			name = in.path
		}
		if name == "" { // an input that was not found, by its id or path
			in.name = in.File
			last[in.name] = in
			continue
		}
		clean, err := cleanName(name, r.session.work)
		if err != nil {
			return err
		}
		in.name = clean
		last[clean] = in
	}
	r.inputs = slices.DeleteFunc(r.inputs, func(in *input) bool { return last[in.name] != in })
	return nil
}

// large is from which size on it is looked whether a file has been carried
// already: to look takes as long as to carry a smaller one.
const large = 1 << 20

func (r *run) carryOne(ctx context.Context, in *input, target **record) (err error) {
	if !in.carried() {
		if !in.ReadOnly {
			return nil
		}
		return r.keep(ctx, in)
	}
	if in.size >= large {
		if *target == nil {
			if *target, err = readRecord(r.session.files(ctx)); err != nil {
				return err
			}
		}
		if k := (*target).find(in.name); k != nil && r.isThere(ctx, in, k) {
			in.hash, in.size = k.Hash, k.Size
			return nil
		}
	}
	in.hash, in.size, err = copyFile(ctx, in.source.session, in.path, r.session, in.name)
	return err
}

// isThere reports whether the input has been carried already, and neither it
// nor the copy has changed since.
func (r *run) isThere(ctx context.Context, in *input, k *known) bool {
	from := in.origin()
	if k.From == nil || from.Changed.IsZero() || k.From.Session != from.Session || k.From.Path != from.Path ||
		k.From.Size != from.Size || !k.From.Changed.Equal(from.Changed) {
		return false
	}
	info, err := regular(r.session.files(ctx), in.name)
	return err == nil && k.is(info)
}

// keepName is where a read-only input is kept that lies in the program's
// reach.
func (in *input) keepName() string {
	return path.Join(ownDir, "keep", FileID(in.source.id, in.path))
}

func (r *run) keep(ctx context.Context, in *input) (err error) {
	if in.hash != "" && in.size <= r.it.cfg.Limits.FileSize { // a larger one may have holes without end
		if kept := hashFile(r.session.FS(ctx), in.keepName(), in.size); kept.hash == in.hash {
			return nil
		}
	}
	in.hash, in.size, err = copyFile(ctx, r.session, in.path, r.session, in.keepName())
	return err
}

// checkInputs undoes what the program did to read-only inputs, and notes which
// others it removed. It returns the touched files that are left.
func (r *run) checkInputs(ctx context.Context, t *tree, touched []*entry) ([]*entry, error) {
	for _, in := range r.inputs {
		e := t.find(in.name)
		switch {
		case in.ReadOnly && (e == nil || e.info != nil):
			if err := r.restore(ctx, in); isSession(err) {
				return nil, err
			}
			touched = slices.DeleteFunc(touched, func(e *entry) bool { return e.path == in.name })
		case e == nil && r.isRemoved(ctx, in):
			r.result.Deleted = append(r.result.Deleted, in.name)
		}
	}
	return touched, nil
}

// isRemoved reports whether an input that the traversal did not find is gone,
// rather than out of its limits.
func (r *run) isRemoved(ctx context.Context, in *input) bool {
	_, err := regular(r.session.files(ctx), in.name)
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular)
}

func (r *run) restore(ctx context.Context, in *input) error {
	from, src := in.source.session, in.path
	if !in.carried() {
		src = in.keepName()
	}
	if _, err := regular(r.session.files(ctx), in.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if err := r.session.RemoveAll(ctx, in.name); err != nil {
			return err
		}
	}
	_, _, err := copyFile(ctx, from, src, r.session, in.name)
	return err
}

// reason says, without anything of this machine, why an input is missing.
func reason(err error) string {
	for _, known := range []struct {
		kind error
		text string
	}{
		{sandbox.ErrNotFound, "there is no such session"},
		{sandbox.ErrEnded, "its session has ended"},
		{sandbox.ErrLost, "its session was lost"},
		{sandbox.ErrCeiling, "its session is parked, and there is no room for it to run"},
		{sandbox.ErrConflict, "its session does not run"},
		{fs.ErrNotExist, "there is no such file"},
		{errNotRegular, "it is not a regular file"},
		{fs.ErrPermission, "it may not be read"},
		{syscall.ENOSPC, "there is no space left for it"},
		{syscall.EDQUOT, "there is no space left for it"},
		{syscall.ENOTDIR, "a file is in the way of a folder"},
		{syscall.EISDIR, "a folder is in the way"},
	} {
		if errors.Is(err, known.kind) {
			return known.text
		}
	}
	return "it could not be carried in"
}
