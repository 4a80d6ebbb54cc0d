package server

import (
	"context"
	"errors"
	"regexp"
	"sync"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// sessions are the shells that are to be come back to, by their sandbox and
// name.
type sessions struct {
	mu   sync.Mutex
	held map[[2]string]*session
}

func newSessions() *sessions { return &sessions{held: map[[2]string]*session{}} }

// maxSessions bounds the shells that a sandbox keeps.
const maxSessions = 16

// open returns the session of a name, or a new one.
func (ss *sessions) open(ctx context.Context, s *server, p principal, id, name string) (*session, error) {
	key := [2]string{id, name}
	ss.mu.Lock()
	found, err := ss.find(key)
	ss.mu.Unlock()
	if found != nil || err != nil {
		return found, err
	}
	giveBack, err := s.shells.take(ctx, p.Org)
	if err != nil {
		return nil, err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if found, err := ss.find(key); found != nil || err != nil { // others have opened theirs meanwhile
		giveBack()
		return found, err
	}
	made := newSession(name != "")
	if name != "" {
		ss.held[key] = made
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	made.cancel = cancel
	cmd := sandbox.Handle(s.cfg.Sandboxes(p.scope()), id).Command("/bin/sh", "-lc", shell)
	go func() {
		defer giveBack()
		defer cancel()
		err := made.run(run, cmd)
		ss.mu.Lock()
		if ss.held[key] == made {
			delete(ss.held, key)
		}
		ss.mu.Unlock()
		made.finish(shellEnd(err))
	}()
	return made, nil
}

// find returns the session of a name, if it has one and there is. It refuses
// what would be one too many. The caller holds ss.mu.
func (ss *sessions) find(key [2]string) (*session, error) {
	if key[1] == "" {
		return nil, nil
	}
	n := 0
	for k := range ss.held {
		if k[0] == key[0] {
			n++
		}
	}
	found := ss.held[key]
	if found == nil && n >= maxSessions {
		return nil, problem.New(problem.TooManyRuns, "arg: the sandbox has as many sessions as it may have; end one")
	}
	return found, nil
}

// A session is a shell on a terminal, with what it has shown of late. Whoever
// joins is shown that first. It waits for all who look on, so that they miss
// nothing, and for nobody when nobody does.
type session struct {
	named  bool
	term   *sandbox.Terminal
	keys   *keys
	cancel context.CancelFunc

	mu      sync.Mutex
	changed *sync.Cond // of mu: something below has
	kept    []byte
	end     int64 // how much has been shown in all
	cut     bool  // some of that is gone
	viewers map[*viewer]struct{}
	over    error // says why it has ended
}

const (
	// scrollback is what is kept for who comes later.
	scrollback = 256 << 10
	// ahead is by how much the program may be ahead of who looks on.
	ahead = 512 << 10
	// maxShown is how much is passed on at once.
	maxShown = 64 << 10
)

func newSession(named bool) *session {
	s := &session{named: named, term: sandbox.NewTerminal(24, 80), keys: newKeys(), viewers: map[*viewer]struct{}{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *session) run(ctx context.Context, cmd *sandbox.Cmd) error {
	defer s.keys.close()
	cmd.Terminal, cmd.Stdin, cmd.Stdout = s.term, s.keys, s
	return cmd.Run(ctx)
}

// Write takes what appears on the terminal.
func (s *session) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.slowest() < s.end-ahead {
		s.changed.Wait()
	}
	s.kept = append(s.kept, p...)
	s.end += int64(len(p))
	if len(s.kept) > 2*scrollback+ahead { // seldom, as the rest has to move
		n := len(s.kept) - max(scrollback, int(s.end-s.slowest()))
		s.kept, s.cut = append(s.kept[:0], s.kept[n:]...), true
	}
	s.changed.Broadcast()
	return len(p), nil
}

// slowest is what all who look on have been shown. The caller holds s.mu.
func (s *session) slowest() int64 {
	least := s.end
	for v := range s.viewers {
		least = min(least, v.at)
	}
	return least
}

func (s *session) finish(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = errors.New(why)
	s.changed.Broadcast()
}

// A viewer is one page that shows a session.
type viewer struct {
	*session
	tasks      sync.WaitGroup
	rows, cols uint16 // its own; 0 until it has told

	at     int64  // how much it has been shown; guarded by session.mu
	replay []byte // what is to be shown first
}

// join has a new viewer look on.
func (s *session) join() *viewer {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &viewer{session: s, at: s.end, replay: s.past()}
	s.viewers[v] = struct{}{}
	s.term.Watch(true)
	return v
}

// leave ends a viewer, and with it a session that nobody can come back to.
func (s *session) leave(v *viewer) {
	s.mu.Lock()
	delete(s.viewers, v)
	s.term.Watch(len(s.viewers) > 0)
	s.changed.Broadcast()
	s.mu.Unlock()
	if !s.named {
		s.cancel()
	}
	v.tasks.Wait()
}

// questions are sequences that a terminal answers, as if its user had typed
// the answer: they are not asked again when the past is shown. Each may begin
// with one character of its own in the place of an escape and a letter.
var questions = regexp.MustCompile(`(?:\x1b\[|\x{9b})(?:[>=?]?[0-9;]*c|\??[0-9;]*n|\??[0-9;]*\$p|>[0-9;]*q|[0-9;]*x)|` +
	`(?:\x1b\]|\x{9d})[0-9;]*;\?[0-9;?]*(?:\x07|\x1b\\|\x{9c})|(?:\x1bP|\x{90})[+$]q[^\x1b\x{9c}]*(?:\x1b\\|\x{9c})|\x1bZ|\x{9a}|\x05`)

// past is the last of what has been shown. The caller holds s.mu.
func (s *session) past() []byte {
	b := s.kept
	if n := len(b) - scrollback; n > 0 {
		b = b[n:]
	}
	if s.cut || len(b) < len(s.kept) { // begin at a line, not in the middle of a sequence or character
		for i, c := range b {
			if c == '\n' {
				b = b[i+1:]
				break
			}
		}
	}
	return questions.ReplaceAll(b, nil) // which copies
}

// next is what the viewer is to be shown. Its error is why there is no more.
func (v *viewer) next(ctx context.Context) ([]byte, error) {
	if len(v.replay) > 0 {
		b := v.replay[:min(len(v.replay), maxShown)]
		v.replay = v.replay[len(b):]
		return b, nil
	}
	s := v.session
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for v.at == s.end && s.over == nil && ctx.Err() == nil {
		s.changed.Wait()
	}
	n := min(s.end-v.at, maxShown)
	if n == 0 || ctx.Err() != nil {
		if s.over != nil {
			return nil, s.over
		}
		return nil, context.Cause(ctx)
	}
	from := len(s.kept) - int(s.end-v.at)
	b := append([]byte(nil), s.kept[from:from+int(n)]...)
	v.at += n
	s.changed.Broadcast()
	return b, nil
}

// typed types, on a terminal of this viewer's size. The program may not read:
// ctx is how long to wait for it.
func (v *viewer) typed(ctx context.Context, b []byte) {
	v.mu.Lock()
	rows, cols := v.rows, v.cols
	v.mu.Unlock()
	if r, c := v.term.Size(); rows > 0 && (r != rows || c != cols) {
		v.term.Resize(rows, cols) //nolint:errcheck // it is one that a terminal can have
	}
	v.keys.send(ctx, b)
}

// resize gives the terminal this viewer's size: of several the last who did
// something counts.
func (v *viewer) resize(rows, cols uint16) {
	v.mu.Lock()
	v.rows, v.cols = rows, cols
	v.mu.Unlock()
	v.term.Resize(rows, cols) //nolint:errcheck // as above
}
