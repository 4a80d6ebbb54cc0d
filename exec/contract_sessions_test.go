//go:build linux

package exec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/sandbox"
)

func continuedByID(t *testing.T, l lab) {
	is := is.New(t)
	first := l.sh(t, "", "echo one > a.txt")
	second := l.sh(t, first.Session, "cat a.txt")
	plain(t, second, "one\n")
	is.Equal(second.Session, first.Session)
}

func clientGone(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sh(t, "", "true")
	gone := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(bounded(t))
	out := &watcher{seen: func() { cancel(gone) }}
	res, err := l.Run(ctx, exec.Snippet{Session: here.Session, Language: "sh", Code: "echo started; sleep 100; echo late > late.txt", Stdout: out})
	is.True(errors.Is(err, gone))
	is.Equal(res.Stdout, "started\n")
	is.Equal(res.Cause, sandbox.CauseKilled)
	is.Equal(l.list(t, here.Session), []string{}) // the session is as usable as before
	plain(t, l.sh(t, here.Session, "echo next"), "next\n")
}

// A watcher says once that something was written.
type watcher struct {
	once sync.Once
	seen func()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.once.Do(w.seen)
	return len(p), nil
}

// A client that has stopped reading holds nobody up.
func stopsReading(t *testing.T, l lab) {
	is := is.New(t)
	gone := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(bounded(t))
	out := &stuck{free: make(chan struct{}), seen: func() {}}
	defer close(out.free)
	res := l.run(t, exec.Snippet{Code: "echo err >&2; sleep 100", Stderr: out, Timeout: time.Second})
	is.Equal(res.Cause, sandbox.CauseTimeout)
	is.Equal(res.Stderr, "err\nexec: stopped after 1s: it ran out of time\n")

	before := &stuck{free: out.free, seen: func() { cancel(gone) }}
	_, err := l.Run(ctx, exec.Snippet{
		Session: res.Session, Language: "sh", Code: "echo", Stderr: before,
		Inputs: []exec.Input{{Session: "nosuchsession", File: "x"}}, // which is told before the program runs
	})
	is.True(errors.Is(err, gone))
}

// A stuck writer does not come back from a Write until it is freed.
type stuck struct {
	seen func()
	free chan struct{}
}

func (w *stuck) Write(p []byte) (int, error) {
	w.seen()
	<-w.free
	return len(p), nil
}

func parallelRuns(t *testing.T, l lab) {
	is := is.New(t)
	results := make([]*exec.Result, 4)
	errs := make([]error, len(results))
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			results[i], errs[i] = l.Run(bounded(t), exec.Snippet{Language: "sh", Code: fmt.Sprintf("echo %d > out.txt; cat out.txt", i)})
		})
	}
	all.Wait()
	sessions := map[string]bool{}
	for i, res := range results {
		is.NoErr(errs[i])
		l.endLater(t, res.Session)
		plain(t, res, fmt.Sprintf("%d\n", i))
		sessions[res.Session] = true
		is.Equal(paths(res), "out.txt")
	}
	is.Equal(len(sessions), len(results))
}

func takeTurns(t *testing.T, l lab) {
	is := is.New(t)
	here := l.upload(t, "", "lock", "")
	other := l.With(l.sandboxes) // as of another request
	var all sync.WaitGroup
	results := make([]*exec.Result, 6)
	errs := make([]error, len(results))
	for i := range results {
		it := l.Interpreter
		if i%2 == 1 {
			it = other
		}
		all.Go(func() {
			code := fmt.Sprintf("cat lock; echo taken > lock; sleep 0.05; echo -n > lock; echo %d > out%d.txt", i, i)
			results[i], errs[i] = it.Run(bounded(t), exec.Snippet{Session: here.Session, Language: "sh", Code: code})
		})
	}
	all.Wait()
	for i, res := range results {
		is.NoErr(errs[i])
		is.Equal(res.Stdout, "")                          // no other ran meanwhile
		is.Equal(paths(res), fmt.Sprintf("out%d.txt", i)) // its own file, and none of another's
	}
}

func parallelUploads(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sh(t, "", "true")
	errs := make([]error, 20)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, errs[i] = l.Upload(bounded(t), exec.Upload{Session: here.Session, Name: fmt.Sprintf("in%d", i), Content: strings.NewReader("x"), ReadOnly: i%2 == 0})
		})
	}
	all.Wait()
	readOnly := 0
	for f, err := range l.Files(bounded(t), here.Session) {
		is.NoErr(err)
		if f.ReadOnly {
			readOnly++
		}
	}
	is.NoErr(errors.Join(errs...))
	is.Equal(readOnly, 10) // none has been forgotten
}

func expiredSession(t *testing.T, l lab) {
	is := is.New(t)
	old := l.sh(t, "", "echo x > a.txt")
	is.NoErr(l.sandboxes.End(bounded(t), old.Session))
	for _, err := range l.Files(bounded(t), old.Session) {
		is.True(errors.Is(err, sandbox.ErrEnded))
	}
	res := l.sh(t, old.Session, "echo hi")
	plain(t, res, "hi\n")
	is.True(res.Session != old.Session) // a fresh one, and it says so
	f := l.upload(t, old.Session, "a.txt", "again")
	is.True(f.Session != old.Session)
	is.Equal(l.read(t, f.Session, f.ID), "again")
}

func sessionEndsMidRun(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sh(t, "", "true")
	out := &watcher{seen: func() { go l.sandboxes.End(context.Background(), here.Session) }}
	res := l.run(t, exec.Snippet{Session: here.Session, Code: "echo started; sleep 100", Stdout: out})
	is.Equal(res.Stdout, "started\n")
	is.Equal(res.Cause, sandbox.CauseEnded)
	is.Equal(res.Stderr, "exec: stopped: the session has ended, and its files are gone\n")
	next := l.sh(t, here.Session, "echo next")
	plain(t, next, "next\n")
	is.True(next.Session != here.Session)
}

// A run whose session ends before the program starts has a fresh one, and the
// inputs that are elsewhere.
func sessionEndsBeforeRun(t *testing.T, l lab) {
	is := is.New(t)
	here := l.sh(t, "", "true")
	f := l.upload(t, "", "in.txt", "input")
	res, err := l.With(&ending{l.sandboxes, here.Session}).Run(bounded(t), exec.Snippet{
		Session: here.Session, Language: "sh", Code: "cat in.txt",
		Inputs: []exec.Input{input(f), {Session: "nosuchsession", File: "x"}},
	})
	is.NoErr(err)
	l.endLater(t, res.Session)
	is.True(res.Session != here.Session)
	is.Equal(res.Stdout, "input")
	is.Equal(res.Missing, []string{"x"})
	is.Equal(res.Stderr, "exec: input \"x\" is missing: there is no such session\n")
}

// ending ends a session at the first write to it.
type ending struct {
	sandboxtest.Sandboxes
	id string
}

func (e *ending) Attach(ctx context.Context, id string) (*sandbox.Sandbox, error) {
	if id != e.id {
		return e.Sandboxes.Attach(ctx, id)
	}
	return sandbox.Handle(e, id), nil
}

func (e *ending) WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	if err := e.End(ctx, id); err != nil {
		return err
	}
	return e.Sandboxes.WriteFile(ctx, id, name, src, perm)
}

func unknownSession(t *testing.T, l lab) {
	is := is.New(t)
	for _, id := range []string{"nosuchsession", "../../etc", "a\x00b", strings.Repeat("x", 1000)} {
		res := l.sh(t, id, "echo hi")
		plain(t, res, "hi\n")
		is.True(res.Session != id)
	}
}
