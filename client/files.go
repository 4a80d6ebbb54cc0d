package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// verbatim has names taken as they are.
const verbatim = "1"

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := err.(*problem.Error); ok { //nolint:errorlint // the outermost alone
		own := *p
		own.Detail = strings.TrimPrefix(p.Detail, op+" "+name+": ") // which the server says too
		err = &own
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func baseName(name string) string {
	if name == "" {
		return "."
	}
	return path.Base(name)
}

// Open implements sandbox.Driver.
func (r *Remote) Open(ctx context.Context, id, name string) (fs.File, error) {
	f, err := r.open(ctx, id, name)
	return f, pathError("open", name, err)
}

func (r *Remote) open(ctx context.Context, id, name string) (fs.File, error) {
	body, info, err := r.fetch(ctx, id, name, 0)
	if err != nil {
		return nil, err
	}
	if info == nil {
		body.Close()
		return r.openPlain(ctx, id, name)
	}
	info.name = baseName(name)
	if info.IsDir() {
		body.Close()
		return &dirFile{name: name, info: info, ctx: ctx, list: func() ([]fs.DirEntry, error) {
			return r.ReadDir(ctx, id, name)
		}}, nil
	}
	f := &remoteFile{ctx: ctx, name: name, info: info, body: body}
	f.reopen = func(offset int64) (io.ReadCloser, error) {
		body, _, err := r.fetch(ctx, id, name, offset)
		return body, err
	}
	return f, nil
}

// statHeader has the description of what an answer is of.
const statHeader = "Sandbox-Stat"

// fetch begins to read a file. Without the server's description info is nil.
func (r *Remote) fetch(ctx context.Context, id, name string, offset int64) (io.ReadCloser, *fileInfo, error) {
	if err := checkID(id); err != nil {
		return nil, nil, err
	}
	resp, err := r.api.GetSandboxByIDFs(ctx, id, &GetSandboxByIDFsParams{Path: name, Verbatim: verbatim, Offset: offset})
	if err := answered(ctx, resp, err); err != nil {
		return nil, nil, err
	}
	text := resp.Header.Get(statHeader)
	if text == "" {
		return resp.Body, nil, nil
	}
	var s SandboxStat
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		resp.Body.Close()
		return nil, nil, fmt.Errorf("the server's description of a file: %w", err)
	}
	return resp.Body, fileInfoOf(&s), nil
}

// WriteFile implements sandbox.Driver. Src may still be read from, once, after
// it has returned.
func (r *Remote) WriteFile(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	return pathError("write", name, r.write(ctx, id, name, src, perm))
}

func (r *Remote) write(ctx context.Context, id, name string, src io.Reader, perm fs.FileMode) error {
	if err := checkID(id); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	body := newSource(ctx, src)
	defer body.Close()
	params := &PostSandboxByIDFsParams{Path: name, Verbatim: verbatim, Mode: fmt.Sprintf("%o", perm.Perm()), Upload: rand.Text()}
	resp, err := r.api.PostSandboxByIDFsWithBody(ctx, id, params, "application/octet-stream", body, expect)
	if failure := body.failure(); failure != nil {
		if err == nil {
			resp.Body.Close()
		}
		r.breakOff(ctx, id, params)
		return failure
	}
	if err != nil {
		r.breakOff(ctx, id, params)
	}
	return r.value(ctx, resp, err, nil)
}

// breakOffTimeout bounds the wait for a server to remove half of a file.
const breakOffTimeout = 500 * time.Millisecond

// breakOff waits until the server has removed what came of a file. It will, in
// any case, once it notices that the connection is gone.
func (r *Remote) breakOff(ctx context.Context, id string, p *PostSandboxByIDFsParams) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakOffTimeout)
	defer cancel()
	resp, err := r.api.DeleteSandboxByIDFs(ctx, id, &DeleteSandboxByIDFsParams{Path: p.Path, Verbatim: verbatim, Upload: p.Upload})
	if err == nil {
		resp.Body.Close()
	}
}

// expect asks the server for its word before a file is sent: what it refuses
// it refuses then, rather than by breaking the connection.
func expect(_ context.Context, req *http.Request) error {
	req.Header.Set("Expect", "100-continue")
	return nil
}

// Stat implements sandbox.FileSystem.
func (r *Remote) Stat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	info, _, err := r.describe(ctx, id, name, GetSandboxByIDFsParamsStatStat)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return info, nil
}

// Lstat implements sandbox.FileSystem.
func (r *Remote) Lstat(ctx context.Context, id, name string) (fs.FileInfo, error) {
	info, _, err := r.describe(ctx, id, name, GetSandboxByIDFsParamsStatLstat)
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return info, nil
}

// ReadLink implements sandbox.FileSystem.
func (r *Remote) ReadLink(ctx context.Context, id, name string) (string, error) {
	info, target, err := r.describe(ctx, id, name, GetSandboxByIDFsParamsStatLstat)
	if err == nil && info.Type() != fs.ModeSymlink {
		err = syscall.EINVAL
	}
	return target, pathError("readlink", name, err)
}

func (r *Remote) describe(ctx context.Context, id, name string, how GetSandboxByIDFsParamsStat) (*fileInfo, string, error) {
	list, err := r.stats(ctx, id, name, how)
	if err != nil {
		return nil, "", err
	}
	if len(list) != 1 {
		return nil, "", fmt.Errorf("the server described %d files where one was asked for", len(list))
	}
	info := fileInfoOf(&list[0])
	info.name = baseName(name)
	return info, list[0].Target, nil
}

func (r *Remote) stats(ctx context.Context, id, name string, how GetSandboxByIDFsParamsStat) ([]SandboxStat, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	var out SandboxStatList
	resp, err := r.api.GetSandboxByIDFs(ctx, id, &GetSandboxByIDFsParams{Path: name, Verbatim: verbatim, Stat: how})
	if err == nil && resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") != "application/json" {
		resp.Body.Close()
		return nil, fmt.Errorf("the server does not describe files: %w", errors.ErrUnsupported)
	}
	err = r.value(ctx, resp, err, &out)
	return out.Stats, err
}

// ReadDir implements sandbox.FileSystem.
func (r *Remote) ReadDir(ctx context.Context, id, name string) ([]fs.DirEntry, error) {
	list, err := r.stats(ctx, id, name, GetSandboxByIDFsParamsStatList)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	entries := make([]fs.DirEntry, len(list))
	for i := range list {
		entries[i] = fileInfoOf(&list[i])
	}
	return entries, nil
}

// Mkdir implements sandbox.FileSystem.
func (r *Remote) Mkdir(ctx context.Context, id, name string, perm fs.FileMode, parents bool) error {
	err := checkID(id)
	if err == nil {
		params := &PostSandboxByIDFsParams{Path: name, Verbatim: verbatim, Mkdir: "1", Mode: fmt.Sprintf("%o", perm.Perm())}
		if parents {
			params.Parents = "1"
		}
		resp, e := r.api.PostSandboxByIDFsWithBody(ctx, id, params, "application/octet-stream", http.NoBody)
		err = r.value(ctx, resp, e, nil)
	}
	return pathError("mkdir", name, err)
}

// Remove implements sandbox.FileSystem.
func (r *Remote) Remove(ctx context.Context, id, name string, tree bool) error {
	err := checkID(id)
	if err == nil {
		params := &DeleteSandboxByIDFsParams{Path: name, Verbatim: verbatim}
		if tree {
			params.Tree = "1"
		}
		resp, e := r.api.DeleteSandboxByIDFs(ctx, id, params)
		err = extension(r.value(ctx, resp, e, nil))
	}
	return pathError("remove", name, err)
}

var _ sandbox.FileSystem = (*Remote)(nil)
