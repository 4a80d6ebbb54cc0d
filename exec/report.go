package exec

import (
	"context"
	"io"
	"io/fs"
	"sync"

	"github.com/hanzoai/sandbox/sandbox"
)

// report finds what the program did to the session's files.
func (r *run) report(ctx context.Context, rec *record, changes sandbox.Tracker) error {
	all, err := changes.Tree()
	if err != nil {
		return err
	}
	t := r.it.regular(all)
	r.result.Omitted = t.omitted
	var touched []*entry
	for i := range t.files {
		if e := &t.files[i]; e.info != nil {
			touched = append(touched, e)
		}
	}
	if len(touched) > 0 { // files may have been uploaded meanwhile
		if rec, err = readRecord(r.session.files(ctx)); err != nil {
			return err
		}
	}
	if touched, err = r.checkInputs(ctx, t, touched); err != nil {
		return err
	}
	if err := r.files(ctx, rec, touched); err != nil {
		return err
	}
	return r.remember(ctx, t)
}

// hashers is how many files are read at a time.
const hashers = 4

// files reports those of the touched files that have another content now. They
// are read a few at a time, until there are enough, or enough has been read: a
// file with holes can be larger than the disk.
func (r *run) files(ctx context.Context, rec *record, touched []*entry) error {
	limits := &r.it.cfg.Limits
	left := limits.Total
	for len(touched) > 0 && len(r.result.Files) < limits.Files && left > 0 {
		batch := touched[:min(hashers, len(touched))]
		for i, c := range r.hash(ctx, batch) {
			if isSession(c.err) {
				return c.err
			}
			r.add(rec, batch[i], &c)
			left -= c.size
		}
		touched = touched[len(batch):]
	}
	why := WhyFiles
	if left <= 0 {
		why = WhyTotal
	}
	for _, e := range touched {
		r.result.Omitted.add(e.path, why)
	}
	return nil
}

// add reports a file with the given content, or says why it does not.
func (r *run) add(rec *record, e *entry, c *content) {
	limits := &r.it.cfg.Limits
	switch {
	case e.info.Size() > limits.FileSize || c.hash == tooLarge:
		r.result.Omitted.add(e.path, WhyFileSize)
	case c.err != nil:
		r.result.Omitted.add(e.path, WhyUnreadable)
	case c.hash == r.before(rec, e.path):
	case len(r.result.Files) == limits.Files:
		r.result.Omitted.add(e.path, WhyFiles)
	default:
		r.result.Files = append(r.result.Files, File{
			ID: FileID(r.session.ID(), e.path), Session: r.session.ID(), Path: e.path,
			Size: e.info.Size(), Mode: e.info.Mode(), ModTime: e.info.ModTime(), Hash: c.hash,
		})
	}
}

// before is the hash of what a file had before the program ran, if that is
// known.
func (r *run) before(rec *record, path string) string {
	for _, in := range r.inputs {
		if in.name == path && in.hash != "" {
			return in.hash
		}
	}
	if k := rec.find(path); k != nil {
		return k.Hash
	}
	return ""
}

// tooLarge is the hash of a file that grew beyond the limit.
const tooLarge = "-"

// A content is what was read of a file.
type content struct {
	hash string
	size int64
	err  error
}

func (r *run) hash(ctx context.Context, batch []*entry) []content {
	list := make([]content, len(batch))
	var all sync.WaitGroup
	for i, e := range batch {
		if e.info.Size() <= r.it.cfg.Limits.FileSize {
			all.Go(func() { list[i] = hashFile(r.session.FS(ctx), e.path, r.it.cfg.Limits.FileSize) })
		}
	}
	all.Wait()
	return list
}

// hashFile reads a file that a program may still be writing to, or have
// replaced by something else.
func hashFile(fsys fs.FS, path string, limit int64) content {
	f, err := fsys.Open(path)
	if err != nil {
		return content{err: err}
	}
	defer f.Close()
	h := newHasher(io.LimitReader(f, limit+1))
	if _, err := io.Copy(io.Discard, h); err != nil {
		return content{size: h.size, err: err}
	}
	if h.size > limit {
		return content{hash: tooLarge, size: h.size}
	}
	return content{hash: h.sum(), size: h.size}
}

// remember puts what is known of files' content into the session's record. It
// can do without: then a file that is touched later is reported though it is
// as it was.
func (r *run) remember(ctx context.Context, t *tree) error {
	var list []known
	for _, in := range r.inputs {
		if e := t.find(in.name); e == nil || e.info != nil || !in.carried() || in.hash == "" {
			continue
		}
		info, err := regular(r.session.files(ctx), in.name)
		if isSession(err) {
			return err
		}
		if err == nil {
			list = append(list, known{
				Path: in.name, Size: in.size, Hash: in.hash, Changed: changeTime(info), ReadOnly: in.ReadOnly, From: in.origin(),
			})
		}
	}
	for i := range r.result.Files {
		f := &r.result.Files[i]
		k := known{Path: f.Path, Size: f.Size, Hash: f.Hash}
		if e := t.find(f.Path); e != nil && e.info != nil {
			k.Changed = changeTime(e.info)
		}
		list = append(list, k)
	}
	if len(list) == 0 {
		return nil
	}
	err := r.it.amend(ctx, r.session, func(rec *record) { rec.put(list) })
	if isSession(err) {
		return err
	}
	return nil
}
