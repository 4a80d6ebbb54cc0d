package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// An event is a line of a stream.
type event struct {
	Type     string           `json:"type"`
	Data     string           `json:"data,omitempty"`
	Base64   []byte           `json:"base64,omitempty"`
	ExitCode *int             `json:"exitCode,omitempty"`
	Signal   int              `json:"signal,omitempty"`
	Cause    sandbox.Cause    `json:"cause,omitempty"`
	Problem  *problem.Details `json:"problem,omitempty"`
}

// A streamed answer is a command that is run while it is written.
type streamed struct {
	server typed
	ctx    context.Context //nolint:containedctx // the request's: the answer is written within it
	cmd    *command
}

// stream answers with events. What can be refused is, before the answer
// begins.
func (s typed) stream(ctx context.Context, c *command) (streamed, error) {
	if _, err := c.cmd(sandbox.Handle(s.sandboxes(ctx), c.ID)); err != nil {
		return streamed{}, err
	}
	info, err := s.sandboxes(ctx).Info(ctx, c.ID)
	if err != nil {
		return streamed{}, err
	}
	if info.Status != sandbox.StatusRunning {
		return streamed{}, &sandbox.ConflictError{ID: info.ID, Status: info.Status, Why: "sandbox is " + string(info.Status)}
	}
	return streamed{s, ctx, c}, nil
}

// VisitPostSandboxByIDExecResponse implements the answer of exec.
func (a streamed) VisitPostSandboxByIDExecResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitRunInSandboxResponse implements the answer of run.
func (a streamed) VisitRunInSandboxResponse(w http.ResponseWriter) error { return a.write(w) }

// write never returns an error: the status is out, so that an error is the
// stream's last event. A stream without a last event was cut.
func (a streamed) write(w http.ResponseWriter) error {
	w = untimed(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	lines := &lineWriter{w: w, control: http.NewResponseController(w)}
	lines.control.Flush() //nolint:errcheck // what cannot be flushed shows when it is written
	stdout, stderr := &eventWriter{lines: lines, kind: "stdout"}, &eventWriter{lines: lines, kind: "stderr"}
	status, err := a.server.carry(a.ctx, a.cmd, stdout, stderr)
	// A command waits for who reads it, but what is left of it does not.
	lines.control.SetWriteDeadline(time.Now().Add(a.server.cfg.Limits.BodyTime)) //nolint:errcheck // without one it takes longer
	stdout.flush()
	stderr.flush()
	if err != nil {
		p, known := problem.Of(err)
		if !known {
			a.server.log.Error("a stream failed", "error", err)
		}
		lines.write(&event{Type: "error", Problem: &p.Details}) //nolint:errcheck // nobody is there to be told
		return nil
	}
	lines.write(&event{Type: "exit", ExitCode: &status.Code, Signal: int(status.Signal), Cause: status.Cause}) //nolint:errcheck // as above
	return nil
}

// A lineWriter writes events, each at once. Writers of both streams share it.
type lineWriter struct {
	control *http.ResponseController

	mu sync.Mutex
	w  http.ResponseWriter
}

func (l *lineWriter) write(e *event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(append(line, '\n')); err != nil {
		return err
	}
	return l.control.Flush()
}

// An eventWriter makes events of what a program writes. It holds back a rune
// that is not whole yet.
type eventWriter struct {
	lines *lineWriter
	kind  string

	mu   sync.Mutex // a Write that waits is given up on, and may still be there at the end
	held []byte
}

func (e *eventWriter) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := append(e.held, p...)
	n := wholeRunes(b)
	e.held = append([]byte(nil), b[n:]...)
	return len(p), e.send(b[:n])
}

// flush sends what will not become a rune any more.
func (e *eventWriter) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.send(e.held) //nolint:errcheck // the last event's fate is the same
	e.held = nil
}

func (e *eventWriter) send(b []byte) error {
	switch {
	case len(b) == 0:
		return nil
	case utf8.Valid(b):
		return e.lines.write(&event{Type: e.kind, Data: string(b)})
	}
	return e.lines.write(&event{Type: e.kind, Base64: b})
}
