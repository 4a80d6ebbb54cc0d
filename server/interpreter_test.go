package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A shell is an Interpreter of one language, over sandboxes in memory.
type shell struct {
	m     *memory
	lease func(sandbox.Owner) server.Sandboxes // nil is the memory's own
}

func (i shell) open(ctx context.Context, o sandbox.Owner, session string) (*sandbox.Sandbox, error) {
	if i.lease != nil {
		return i.lease(o).Lease(ctx, sandbox.Spec{ID: session})
	}
	return i.m.For(o).Lease(ctx, sandbox.Spec{ID: session})
}

func (i shell) held(ctx context.Context, o sandbox.Owner, session string) (*sandbox.Sandbox, error) {
	v := i.m.For(o)
	if _, err := v.Info(ctx, session); err != nil {
		return nil, err
	}
	return sandbox.Handle(v, session), nil
}

func fileID(session, name string) string {
	sum := sha256.Sum256([]byte(session + "\x00" + name))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:21]
}

func (i shell) Run(ctx context.Context, o sandbox.Owner, s server.Snippet) (*server.Result, error) {
	if s.Language != "bash" {
		return nil, fmt.Errorf("%w: unknown language: have bash", sandbox.ErrInvalid)
	}
	sb, err := i.open(ctx, o, s.Session)
	if err != nil {
		return nil, err
	}
	var stdout, stderr strings.Builder
	cmd := sb.Command("sh", append([]string{"-c", s.Code, "sh"}, s.Args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Timeout = &stdout, &stderr, s.Timeout
	err = cmd.Run(ctx)
	result := &server.Result{Session: sb.ID(), Stdout: stdout.String(), Stderr: stderr.String(), Status: sandbox.ExitStatus{Cause: sandbox.CauseExit}}
	if e, ok := errors.AsType[*sandbox.ExitError](err); ok {
		result.Status = e.ExitStatus
	} else if err != nil {
		return nil, err
	}
	result.Files, err = i.Files(ctx, o, sb.ID())
	return result, err
}

func (i shell) Put(ctx context.Context, o sandbox.Owner, u server.Upload) (server.SessionFile, error) {
	sb, err := i.open(ctx, o, u.Session)
	if err == nil {
		err = sb.WriteFile(ctx, u.Name, u.Content, 0o644)
	}
	if err != nil {
		return server.SessionFile{}, err
	}
	return server.SessionFile{ID: fileID(sb.ID(), u.Name), Session: sb.ID(), Name: u.Name}, nil
}

func (i shell) Open(ctx context.Context, o sandbox.Owner, session, id string) (io.ReadCloser, server.SessionFile, error) {
	list, err := i.Files(ctx, o, session)
	if err != nil {
		return nil, server.SessionFile{}, err
	}
	sb, err := i.held(ctx, o, session)
	if err != nil {
		return nil, server.SessionFile{}, err
	}
	for _, f := range list {
		if f.ID == id || f.Name == id {
			file, err := sb.FS(ctx).Open(f.Name)
			return file, f, err
		}
	}
	return nil, server.SessionFile{}, &fs.PathError{Op: "open", Path: id, Err: fs.ErrNotExist}
}

func (i shell) Files(ctx context.Context, o sandbox.Owner, session string) ([]server.SessionFile, error) {
	sb, err := i.held(ctx, o, session)
	if err != nil {
		return nil, err
	}
	list := []server.SessionFile{}
	err = fs.WalkDir(sb.FS(ctx), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			list = append(list, server.SessionFile{ID: fileID(session, name), Session: session, Name: name, Size: info.Size(), ModTime: info.ModTime()})
		}
		return err
	})
	return list, err
}

func (i shell) Remove(ctx context.Context, o sandbox.Owner, session, id string) error {
	_, f, err := i.Open(ctx, o, session, id)
	if err != nil {
		return err
	}
	sb, err := i.held(ctx, o, session)
	if err != nil {
		return err
	}
	return sb.Remove(ctx, f.Name)
}
