package exec

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
)

// An Upload is a file to put into a session.
type Upload struct {
	// Session is where to; without one, or if it has ended, it is a fresh
	// one.
	Session string
	// Name is the file's path in the working directory.
	Name string
	// Content is read to its end; the file appears when it is complete.
	Content io.Reader
	// ReadOnly drops what programs that have the file as an Input do to it.
	ReadOnly bool
}

// Upload puts a file into a session and describes it. Its Session is where it
// went. Of one that fails no fresh session stays.
func (it *Interpreter) Upload(ctx context.Context, u Upload) (File, error) {
	if u.Content == nil {
		return File{}, invalid("an upload without Content")
	}
	name, err := cleanName(u.Name, "")
	if err != nil {
		return File{}, err
	}
	h := newHasher(u.Content)
	f, err := it.put(ctx, &u, u.Session, name, h)
	if isGone(err) && h.size == 0 { // it is about to end
		f, err = it.put(ctx, &u, "", name, h)
	}
	return f, err
}

func (it *Interpreter) put(ctx context.Context, u *Upload, id, name string, content *hasher) (_ File, err error) {
	s, err := it.receive(ctx, id)
	if err != nil {
		return File{}, err
	}
	defer func() {
		if err = errors.Join(err, s.close()); err != nil && s.fresh {
			s.discard(ctx)
		}
	}()
	if err := s.WriteFile(ctx, name, content, 0o644); err != nil {
		return File{}, err
	}
	info, err := regular(s.files(ctx), name)
	if err != nil {
		return File{}, err
	}
	k := known{Path: name, Size: content.size, Hash: content.sum(), Changed: changeTime(info), ReadOnly: u.ReadOnly}
	if err := it.amend(ctx, s, func(r *record) { r.put([]known{k}) }); err != nil {
		return File{}, err
	}
	return describe(s.ID(), &entry{name, info}, &k), nil
}

// Files lists the regular files of a session, in the order of their paths, by
// the traversal that a run reports by. What Limits leave out of a report is
// left out here too, but for those on the size and number of files. A session
// that has not run yet is not started for it; one that was paused is resumed.
func (it *Interpreter) Files(ctx context.Context, session string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		src, t, err := it.list(ctx, session)
		if err != nil {
			yield(File{}, err)
			return
		}
		recorded := map[string]*known{}
		for i := range src.record.Files {
			recorded[src.record.Files[i].Path] = &src.record.Files[i]
		}
		for i := range t.files {
			e := &t.files[i]
			if !yield(describe(session, e, recorded[e.path]), nil) {
				return
			}
		}
	}
}

// list looks at a session's files, without an engine if it has not run yet.
func (it *Interpreter) list(ctx context.Context, session string) (src *source, t *tree, err error) {
	s, err := it.readable(ctx, session)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if src, err = newSource(ctx, s); err != nil {
		return nil, nil, err
	}
	t, err = it.look(ctx, s, src.record.paths())
	return src, t, err
}

// describe says what is known of a file. Its hash is that of the record if the
// file has not been touched since.
func describe(session string, e *entry, k *known) File {
	f := File{
		ID: FileID(session, e.path), Session: session, Path: e.path,
		Size: e.info.Size(), Mode: e.info.Mode(), ModTime: e.info.ModTime(),
	}
	if k != nil {
		f.ReadOnly = k.ReadOnly
		if k.is(e.info) {
			f.Hash = k.Hash
		}
	}
	return f
}

// Open opens a file of a session by its id or path. The caller closes it. What
// is not a regular file is not opened, and no link followed that is one.
//
// The file may be larger than it says, or than memory: a program that still
// runs may be writing to it.
func (it *Interpreter) Open(ctx context.Context, session, file string) (io.ReadCloser, File, error) {
	s, err := it.readable(ctx, session)
	if err != nil {
		return nil, File{}, err
	}
	f, about, err := it.openIn(ctx, s, file)
	if err != nil {
		return nil, File{}, errors.Join(err, s.close())
	}
	return &opened{f, s}, about, nil
}

func (it *Interpreter) openIn(ctx context.Context, s *session, file string) (fs.File, File, error) {
	src, in, err := it.lookUp(ctx, s, file)
	if err != nil {
		return nil, File{}, err
	}
	f, err := s.files(ctx).Open(in.path)
	if err != nil {
		return nil, File{}, err
	}
	return f, describe(s.ID(), &entry{in.path, in.info}, src.record.find(in.path)), nil
}

// An opened file gives back what it holds of its session.
type opened struct {
	fs.File
	session *session
}

func (o *opened) Close() error { return errors.Join(o.File.Close(), o.session.close()) }

// Remove removes a file of a session by its id or path.
func (it *Interpreter) Remove(ctx context.Context, session, file string) error {
	s, err := it.existing(ctx, session)
	if err != nil {
		return err
	}
	src, in, err := it.lookUp(ctx, s, file)
	if err != nil {
		return err
	}
	if err := src.session.Remove(ctx, in.path); err != nil {
		return err
	}
	if src.record.find(in.path) == nil {
		return nil
	}
	return it.amend(ctx, src.session, func(r *record) { r.drop(in.path) })
}

// newSource is a session with what it knows of its files.
func newSource(ctx context.Context, s *session) (*source, error) {
	rec, err := readRecord(s.files(ctx))
	if err != nil {
		return nil, err
	}
	return &source{id: s.ID(), session: s, record: rec}, nil
}

func (it *Interpreter) lookUp(ctx context.Context, s *session, file string) (*source, *input, error) {
	src, err := newSource(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	in := &input{Input: Input{File: file}}
	if err := it.resolve(ctx, src, in); err != nil {
		return nil, nil, err
	}
	return src, in, nil
}
