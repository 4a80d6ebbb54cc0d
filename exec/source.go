package exec

import (
	"context"
	"sync"

	"github.com/hanzoai/sandbox/sandbox"
)

// A source is a session that inputs are in.
type source struct {
	id      string
	session *session
	record  *record
	tree    *tree // if it was needed
	err     error
	inputs  []*input
}

// sourcesAtOnce is how many sessions are asked for files at a time.
const sourcesAtOnce = 4

// choose finds the inputs, and the session to run in: "" is a fresh one.
func (r *run) choose(ctx context.Context) (string, error) {
	r.sources = map[string]*source{}
	var order []*source
	for _, in := range r.snippet.Inputs {
		if in.Session == "" {
			in.Session = r.snippet.Session
		}
		i := &input{Input: in}
		r.inputs = append(r.inputs, i)
		src := r.sources[in.Session]
		if src == nil {
			src = &source{id: in.Session}
			r.sources[in.Session] = src
			order = append(order, src)
		}
		i.source, src.inputs = src, append(src.inputs, i)
	}
	each(order, sourcesAtOnce, func(src *source) { r.find(ctx, src) })
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if r.snippet.Session != "" {
		return r.snippet.Session, nil
	}
	chosen, most := "", 0
	for _, src := range order {
		n := 0
		for _, in := range src.inputs {
			if in.err == nil && !in.ReadOnly {
				n++
			}
		}
		if n > most {
			chosen, most = src.id, n
		}
	}
	return chosen, nil
}

// each calls f for all of a list, with at most so many under way.
func each[T any](list []T, atOnce int, f func(T)) {
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, v := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(v)
		})
	}
	all.Wait()
}

// find looks for the inputs that are to be in a session.
func (r *run) find(ctx context.Context, src *source) {
	src.err = func() (err error) {
		if src.id == "" {
			return sandbox.ErrNotFound
		}
		if src.session, err = r.it.readable(ctx, src.id); err != nil {
			return err
		}
		src.record, err = readRecord(src.session.files(ctx))
		return err
	}()
	for _, in := range src.inputs {
		if in.err = src.err; in.err == nil {
			in.err = r.it.resolve(ctx, src, in)
		}
	}
}

// closeSources gives back what reading the inputs held.
func (r *run) closeSources() {
	for _, src := range r.sources {
		if src.session != nil {
			_ = src.session.close() // it was read only
		}
	}
}

// resolve finds the file that an id or path stands for.
func (it *Interpreter) resolve(ctx context.Context, src *source, in *input) (err error) {
	in.path, err = it.pathOf(ctx, src, in.File)
	if err != nil {
		return err
	}
	if in.info, err = regular(src.session.files(ctx), in.path); err != nil {
		return err
	}
	in.size = in.info.Size()
	if k := src.record.find(in.path); k != nil {
		in.ReadOnly = in.ReadOnly || k.ReadOnly
		if k.is(in.info) {
			in.hash = k.Hash
		}
	}
	return nil
}

// pathOf is the path that an id, or a path, stands for. What has been recorded
// is found without a look at the files.
func (it *Interpreter) pathOf(ctx context.Context, src *source, file string) (string, error) {
	if mayBeID(file) {
		for _, p := range src.record.paths() {
			if FileID(src.id, p) == file {
				return p, nil
			}
		}
		if src.tree == nil {
			t, err := it.look(ctx, src.session, src.record.paths())
			if err != nil {
				return "", err
			}
			src.tree = t
		}
		if e := src.tree.byID(src.id, file); e != nil {
			return e.path, nil
		}
	}
	return cleanName(file, src.session.work)
}
