package exec

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// Run runs a snippet to its end, however it ends: that is in the Result. An
// error is a call that failed, with sandbox.ErrInvalid if the Snippet cannot
// be right, ErrLanguage or ErrToolchain if its language is not to be had. When
// ctx ends, the program is killed, and the Result beside the error has what it
// had printed by then. There is a Result as soon as there is a session, which
// may be a fresh one, to be used or ended by the caller.
//
// Run does not end the session, nor does anything else in this package.
func (it *Interpreter) Run(ctx context.Context, s Snippet) (*Result, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	l, err := it.language(s.Language)
	if err != nil {
		return nil, err
	}
	r := &run{
		it: it, snippet: &s, lang: l, code: s.Code,
		stdout: newOutput(it.cfg.MaxOutput, s.Stdout), stderr: newOutput(it.cfg.MaxOutput, s.Stderr),
		result: &Result{},
	}
	defer r.closeSources()
	id, err := r.choose(ctx)
	if err != nil {
		return nil, err
	}
	err = r.inSession(ctx, id)
	if !r.started && isGone(err) { // it ended while this one waited, or is about to
		err = r.inSession(ctx, "")
	}
	if r.session == nil && err != nil {
		return nil, err
	}
	r.result.Stdout, r.result.Stderr = r.stdout.String(), r.stderr.String()
	return r.result, err
}

// A run is a Snippet on its way.
type run struct {
	it      *Interpreter
	snippet *Snippet
	lang    *Language
	code    string
	inputs  []*input           // each under a name of its own
	sources map[string]*source // where inputs are, by session

	session        *session
	place          placement
	stdout, stderr *output
	deadline       time.Time
	started, built bool

	result *Result
}

// inSession runs the program in the session id, when it is its turn.
func (r *run) inSession(ctx context.Context, id string) error {
	s, err := r.it.open(ctx, id, r.lang.Image)
	if err != nil {
		return err
	}
	done, err := r.it.runs.take(ctx, s.ID())
	if err != nil {
		return err
	}
	defer done()
	r.session, r.result.Session = s, s.ID()
	rec, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	changes, err := r.track(ctx, rec)
	if err != nil {
		return err
	}
	defer changes.Close()
	r.started = true
	status, err := r.program(ctx)
	r.result.ExitStatus = status
	r.explain(ctx)
	removed := r.removeScript(ctx)
	defer func() { <-removed }()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isOver(status.Cause):
		return nil
	}
	return r.report(ctx, rec, changes)
}

// prepare puts inputs and program into the session, and meanwhile reads what is
// known of its files.
func (r *run) prepare(ctx context.Context) (*record, error) {
	rec := &record{}
	var reading sync.WaitGroup
	reading.Go(func() {
		if known, err := readRecord(r.session.files(ctx)); err == nil {
			rec = known
		}
	})
	err := r.carry(ctx)
	if err == nil {
		err = r.write(ctx)
	}
	reading.Wait()
	return rec, err
}

// write puts the program where it is to be.
func (r *run) write(ctx context.Context) error {
	s, l := r.session, r.lang
	key := l.key(r.code)
	dir := path.Join(ownDir, "build", l.Name, key)
	src := path.Join(dir, l.File)
	if l.Script {
		src = ".main-" + key + path.Ext(l.File)
	}
	r.place = placement{work: s.work, src: s.abs(src), dir: s.abs(dir), aids: s.abs(ownDir + "/aids")}
	if l.aid != nil && l.aid.wants.MatchString(r.code) {
		if err := s.writeOwn(ctx, path.Join(ownDir, "aids", l.aid.name), l.aid.content); err != nil {
			return err
		}
	}
	if l.Script {
		return s.WriteFile(ctx, src, strings.NewReader(r.code), 0o644)
	}
	if r.built = r.isBuilt(ctx); !r.built { // the programs of before go
		if err := s.RemoveAll(ctx, path.Dir(dir)); isSession(err) {
			return err
		}
	}
	return s.writeOwn(ctx, src, r.code)
}

// track begins to take note of what the program does to the session's files.
// What is written from outside meanwhile is noted too; its content is in the
// record by the time of the report.
func (r *run) track(ctx context.Context, rec *record) (sandbox.Tracker, error) {
	paths := rec.paths()
	for _, in := range r.inputs {
		paths = append(paths, in.name)
	}
	return r.session.Track(ctx, r.it.treeOptions(paths))
}

// cleanupTimeout bounds what is done for a caller who is gone.
const cleanupTimeout = 5 * time.Second

// removeScript removes what Script put into the working directory.
func (r *run) removeScript(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	if !r.lang.Script || isOver(r.result.Cause) {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		// One that stays is hidden, and written over by the same program.
		_ = r.session.Remove(ctx, path.Base(r.place.src))
	}()
	return done
}

// isOver reports whether the session went with the program.
func isOver(cause sandbox.Cause) bool {
	return slices.Contains([]sandbox.Cause{
		sandbox.CauseEnded, sandbox.CauseLost, sandbox.CausePaused, sandbox.CauseServer,
	}, cause)
}

// explainTimeout is how long a writer that blocks may keep a run whose program
// is gone.
const explainTimeout = time.Second

// explain says on standard error what ended the program, if it did not end by
// itself.
func (r *run) explain(ctx context.Context) {
	callOver := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	switch st := r.result.ExitStatus; st.Cause {
	case sandbox.CauseSignal:
		r.stderr.note(ctx, "ended by signal %d, %v", st.Code-128, st.Signal)
	case sandbox.CauseTimeout:
		if callOver { // which had less time than the program
			r.stderr.note(ctx, "stopped: the call ran out of time")
			return
		}
		r.stderr.note(ctx, "stopped after %v: it ran out of time", r.timeout())
	case sandbox.CauseMemory:
		r.stderr.note(ctx, "stopped: the session ran out of memory")
	case sandbox.CauseEnded:
		r.stderr.note(ctx, "stopped: the session has ended, and its files are gone")
	case sandbox.CauseLost:
		r.stderr.note(ctx, "stopped: the session was lost, with the files that were in it")
	case sandbox.CausePaused:
		r.stderr.note(ctx, "stopped: the session was paused")
	case sandbox.CauseServer:
		r.stderr.note(ctx, "stopped: the server of the session went away")
	case sandbox.CauseExit, sandbox.CauseKilled, "":
	}
}

func (r *run) timeout() time.Duration {
	if r.snippet.Timeout > 0 {
		return r.snippet.Timeout
	}
	return r.it.cfg.Timeout
}
