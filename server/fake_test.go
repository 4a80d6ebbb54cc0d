package server_test

import (
	"context"
	"io"
	"net/url"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

func unescape(s string) (string, error) { return url.PathUnescape(s) }

// noInterpreter has no sessions.
type noInterpreter struct{}

func (noInterpreter) Run(context.Context, sandbox.Owner, server.Snippet) (*server.Result, error) {
	return nil, sandbox.ErrInvalid
}

func (noInterpreter) Put(context.Context, sandbox.Owner, server.Upload) (server.SessionFile, error) {
	return server.SessionFile{}, sandbox.ErrNotFound
}

func (noInterpreter) Open(context.Context, sandbox.Owner, string, string) (io.ReadCloser, server.SessionFile, error) {
	return nil, server.SessionFile{}, sandbox.ErrNotFound
}

func (noInterpreter) Remove(context.Context, sandbox.Owner, string, string) error {
	return sandbox.ErrNotFound
}

func (noInterpreter) Files(context.Context, sandbox.Owner, string) ([]server.SessionFile, error) {
	return nil, sandbox.ErrNotFound
}
