package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/hanzoai/sandbox/sandbox"
)

// maxStdin bounds the input of a command whose input is a value.
const maxStdin = 3 << 20

// execPlain runs a command on a server that has no sockets for them: input and
// output are text, and come as a whole.
func (r *Remote) execPlain(ctx context.Context, id string, p *sandbox.Process) (sandbox.ExitStatus, error) {
	body, err := plainRequest(p)
	if err != nil {
		return sandbox.ExitStatus{}, opError("exec", id, err)
	}
	var out SandboxExecResult
	resp, err := r.api.PostSandboxByIDExec(ctx, id, *body)
	if err := r.value(ctx, resp, err, &out); err != nil {
		return plainFailure(ctx, id, err)
	}
	status := sandbox.ExitStatus{Cause: sandbox.CauseExit, Code: int(out.ExitCode)}
	return status, errors.Join(deliver(p.Stdout, out.Stdout), deliver(p.Stderr, out.Stderr))
}

func plainRequest(p *sandbox.Process) (*SandboxExecRequest, error) {
	if len(p.Env) > 0 || len(p.Limits) > 0 || p.Terminal != nil || p.Signals != nil || p.User != (sandbox.User{UID: 1000, GID: 1000}) {
		return nil, fmt.Errorf("environment, user, limits, terminal or signals of a command: the server does not have them: %w", errors.ErrUnsupported)
	}
	body := &SandboxExecRequest{Argv: p.Args, Dir: p.Dir, TimeoutSec: ceilSeconds(p.Timeout)}
	if p.Stdin != nil {
		in, err := io.ReadAll(io.LimitReader(p.Stdin, maxStdin+1))
		if err != nil {
			return nil, err
		}
		if len(in) > maxStdin {
			return nil, fmt.Errorf("input of more than %d bytes: the server does not stream: %w", maxStdin, errors.ErrUnsupported)
		}
		body.Stdin = string(in)
	}
	for _, s := range append([]string{p.Dir, body.Stdin}, p.Args...) {
		if !utf8.ValidString(s) {
			return nil, fmt.Errorf("%.40q is no UTF-8, which is all that the server takes: %w", s, errors.ErrUnsupported)
		}
	}
	return body, nil
}

// plainFailure tells a command that was cut short from a call that failed.
func plainFailure(ctx context.Context, id string, err error) (sandbox.ExitStatus, error) {
	switch {
	case ctx.Err() != nil:
		return cutStatus(causeOf(context.Cause(ctx))), nil
	case errors.Is(err, sandbox.ErrTimeout):
		return cutStatus(sandbox.CauseTimeout), nil
	case errors.Is(err, context.Canceled):
		return cutStatus(sandbox.CauseKilled), nil
	}
	return sandbox.ExitStatus{}, opError("exec", id, err)
}

func deliver(w io.Writer, text string) error {
	if w == nil || text == "" {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}

// openPlain opens a file on a server that does not describe what it reads.
func (r *Remote) openPlain(ctx context.Context, id, name string) (fs.File, error) {
	var out SandboxBlob
	resp, err := r.api.ReadSandboxFile(ctx, SandboxPathIn{ID: id, Path: name})
	if err := r.value(ctx, resp, err, &out); err != nil {
		return nil, err
	}
	info := &fileInfo{name: baseName(name), mode: 0o644, size: int64(len(out.Data))}
	if !out.Dir {
		return &plainFile{Reader: strings.NewReader(string(out.Data)), info: info}, nil
	}
	info.mode = fs.ModeDir | 0o755
	list := make([]fs.DirEntry, len(out.Entries))
	for i, name := range out.Entries {
		list[i] = &plainEntry{name: name, dir: &plainDir{remote: r, ctx: ctx, id: id, path: out.Path}}
	}
	return &dirFile{name: name, info: info, ctx: ctx, list: func() ([]fs.DirEntry, error) { return list, nil }}, nil
}

// A plainFile is a file that was read as a whole.
type plainFile struct {
	*strings.Reader
	info *fileInfo
}

func (f *plainFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *plainFile) Close() error               { return nil }

type plainDir struct {
	remote *Remote
	ctx    context.Context //nolint:containedctx // as for FS: a DirEntry has no place for one
	id     string
	path   string
}

// A plainEntry is a name, of which nothing else is known until it is asked.
type plainEntry struct {
	name string
	dir  *plainDir
}

func (e *plainEntry) Name() string { return e.name }
func (e *plainEntry) IsDir() bool  { return e.Type().IsDir() }

func (e *plainEntry) Type() fs.FileMode {
	info, err := e.Info()
	if err != nil {
		return 0
	}
	return info.Mode().Type()
}

func (e *plainEntry) Info() (fs.FileInfo, error) {
	f, err := e.dir.remote.openPlain(e.dir.ctx, e.dir.id, e.dir.path+"/"+e.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// errIsDir is of a directory that is read as a file.
var errIsDir = syscall.EISDIR
