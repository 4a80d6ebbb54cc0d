package server

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server/mcp"
)

// Interpret is the Config.Interpreter of a code interpreter, whose sessions
// are the owners' own sandboxes.
func Interpret(it *exec.Interpreter, sandboxes func(sandbox.Owner) Sandboxes) Interpreter {
	return &interpreter{it, sandboxes}
}

type interpreter struct {
	it        *exec.Interpreter
	sandboxes func(sandbox.Owner) Sandboxes
}

func (i *interpreter) of(owner sandbox.Owner) *exec.Interpreter {
	return i.it.With(i.sandboxes(owner))
}

func (i *interpreter) Run(ctx context.Context, owner sandbox.Owner, s Snippet) (*Result, error) {
	snippet := exec.Snippet{Session: s.Session, Language: s.Language, Code: s.Code, Args: s.Args, Timeout: s.Timeout}
	if listener := mcp.Listener(ctx); listener != nil {
		snippet.Stdout, snippet.Stderr = listener, listener
	}
	for _, f := range s.Files {
		snippet.Inputs = append(snippet.Inputs, exec.Input{Session: f.Session, File: f.ID, Name: f.Name})
	}
	r, err := i.of(owner).Run(ctx, snippet)
	if err != nil {
		return nil, interpretError(err)
	}
	result := &Result{Session: r.Session, Status: r.ExitStatus, Stdout: r.Stdout, Stderr: r.Stderr, Deleted: r.Deleted}
	for _, f := range r.Files {
		result.Files = append(result.Files, sessionFile(f))
	}
	return result, nil
}

func (i *interpreter) Put(ctx context.Context, owner sandbox.Owner, u Upload) (SessionFile, error) {
	f, err := i.of(owner).Upload(ctx, exec.Upload{Session: u.Session, Name: u.Name, Content: u.Content, ReadOnly: u.ReadOnly})
	return sessionFile(f), interpretError(err)
}

func (i *interpreter) Open(ctx context.Context, owner sandbox.Owner, session, id string) (io.ReadCloser, SessionFile, error) {
	r, f, err := i.of(owner).Open(ctx, session, id)
	return r, sessionFile(f), interpretError(err)
}

func (i *interpreter) Files(ctx context.Context, owner sandbox.Owner, session string) ([]SessionFile, error) {
	list := []SessionFile{}
	for f, err := range i.of(owner).Files(ctx, session) {
		if err != nil {
			return nil, interpretError(err)
		}
		list = append(list, sessionFile(f))
	}
	return list, nil
}

func (i *interpreter) Remove(ctx context.Context, owner sandbox.Owner, session, id string) error {
	return interpretError(i.of(owner).Remove(ctx, session, id))
}

// sessionFile describes a file. Its time is when it was last seen to be there,
// which is now: clients take an old one for one that has gone.
func sessionFile(f exec.File) SessionFile {
	return SessionFile{ID: f.ID, Session: f.Session, Name: f.Path, Size: f.Size, ModTime: time.Now()}
}

// interpretError says what is of package exec alone in the server's terms.
func interpretError(err error) error {
	if e, ok := errors.AsType[*exec.ToolchainError](err); ok {
		return problem.New(problem.ToolchainMissing, e.Error())
	}
	return err
}
