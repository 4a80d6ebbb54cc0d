package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/problem"
)

// interpreter is the code interpreter, where there is one.
func (s *server) interpreter() (Interpreter, error) {
	if s.cfg.Interpreter == nil {
		p := problem.New("unsupported_capability", "this server has no code interpreter")
		p.Details.Error = p.Code
		return nil, p
	}
	return s.cfg.Interpreter, nil
}

// PostExec runs a snippet. It is here that a run costs money, and nowhere
// else: the interpreter knows nothing of it.
func (s typed) PostExec(ctx context.Context, r api.PostExecRequestObject) (api.PostExecResponseObject, error) {
	interpreter, err := s.interpreter()
	if err != nil {
		return nil, err
	}
	b := r.Body
	if b.Lang == "" || b.Code == "" {
		return nil, problem.New("invalid", "lang and code are needed")
	}
	p := principalOf(ctx)
	key := newRun()
	done, err := s.gate.mayRun(ctx, p.Org, key)
	if err != nil {
		return nil, err
	}
	defer done()
	giveBack, err := s.slots.take(ctx, p.Org)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	run := ctx
	if _, err := s.cfg.Sandboxes(p.lessee()).Info(ctx, b.SessionID); err == nil { // else a new one is opened, whatever is called so
		var leave func()
		run, leave = s.runs.enter(ctx, b.SessionID)
		defer leave()
	}
	result, err := interpreter.Run(run, p.lessee(), snippet(b, s.cfg.Limits.RunTime))
	if err != nil {
		return nil, s.leaseError(err)
	}
	if err := s.chargeRun(ctx, p, key, result.Session); err != nil {
		return nil, err
	}
	return api.PostExec200JSONResponse(execOut(result)), nil
}

func snippet(b *api.PostExecJSONRequestBody, most time.Duration) Snippet {
	s := Snippet{Session: b.SessionID, Language: b.Lang, Code: b.Code, Args: b.Args}
	if limit := time.Duration(min(max(b.Timeout, 0), int64(most/time.Millisecond))) * time.Millisecond; limit > 0 {
		s.Timeout = limit
	}
	for _, f := range b.Files {
		session := f.StorageSessionID
		if session == "" {
			session = f.SessionID
		}
		s.Files = append(s.Files, FileRef{Session: session, ID: f.ID, Name: f.Name})
	}
	return s
}

func execOut(r *Result) api.ExecExecOut {
	out := api.ExecExecOut{
		SessionID: r.Session, Stdout: r.Stdout, Stderr: r.Stderr, Files: []api.ExecFileRef{},
		Code: int32(r.Status.Code), Cause: string(r.Status.Cause),
	}
	if r.Status.Signal != 0 {
		out.Signal = r.Status.Signal.String()
	}
	for _, f := range r.Files {
		out.Files = append(out.Files, api.ExecFileRef{ID: f.ID, Name: f.Name, StorageSessionID: r.Session, SessionID: r.Session})
	}
	return out
}

// programmatic refuses in a way that clients take for final.
func (s *server) programmatic(w http.ResponseWriter, r *http.Request) {
	var body any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		s.badBody(w, r, err)
		return
	}
	p := problem.New("unsupported_capability", "this server has no programmatic tool calling; run the program by /v1/exec")
	p.Details.Error = p.Code
	s.fail(w, r, p)
}
