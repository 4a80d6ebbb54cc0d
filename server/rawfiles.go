package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/internal/workpath"
	"github.com/hanzoai/sandbox/sandbox"
)

// A target is the file that a raw request is about.
type target struct {
	all      Sandboxes
	sandbox  *sandbox.Sandbox
	id, name string
	full     string // absolute
	query    query
}

type query map[string][]string

func (q query) get(name string) string {
	if v := q[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (q query) is(name string) bool { return q.get(name) == "1" }

func (s *server) target(r *http.Request) (*target, error) {
	id := r.PathValue("id")
	values, queryErr := url.ParseQuery(r.URL.RawQuery)
	t := &target{all: s.sandboxes(r.Context()), id: id, query: query(values)}
	t.sandbox = sandbox.Handle(t.all, id)
	info, err := t.all.Info(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if queryErr != nil {
		return nil, problem.New(problem.BadRequest, "the query cannot be read") // without its path it would be of the directory
	}
	t.name = orDot(t.query.get("path"))
	if !t.query.is("verbatim") {
		if t.name, err = fileName(t.name); err != nil {
			return nil, err
		}
	}
	if t.full, err = workpath.Resolve(info.Workdir, t.name); err != nil {
		return nil, problem.New("invalid_path", "path must be under "+info.Workdir)
	}
	return t, nil
}

// files is the ability to describe and remove.
func (t *target) files() (sandbox.FileSystem, error) {
	if f, ok := t.all.(sandbox.FileSystem); ok {
		return f, nil
	}
	return nil, errors.ErrUnsupported
}

func (s *server) getFile(w http.ResponseWriter, r *http.Request) {
	t, err := s.target(r)
	if err == nil && t.query.get("stat") != "" {
		err = t.describe(w, r.Context())
	} else if err == nil {
		err = t.read(w, r.Context())
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// read answers with a file's bytes, or a directory's names.
func (t *target) read(w http.ResponseWriter, ctx context.Context) error {
	f, err := t.all.Open(ctx, t.id, t.name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var content io.Reader = f
	if info.IsDir() {
		entries, err := readDir(f)
		if err != nil {
			return err
		}
		content = names(entries)
	} else if err := t.skip(f); err != nil {
		return err
	}
	setStat(w.Header(), info)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", "attachment") // for a browser it is never a page of this site
	if _, err := io.CopyBuffer(onlyWriter{w}, onlyReader{content}, make([]byte, copyChunk)); err != nil {
		panic(http.ErrAbortHandler) // half a file is not to be taken for one
	}
	return nil
}

// skip leaves out what was not asked for.
func (t *target) skip(f fs.File) error {
	text := t.query.get("offset")
	if text == "" {
		return nil
	}
	offset, err := strconv.ParseInt(text, 10, 64)
	if err != nil || offset < 0 {
		return problem.New("invalid", "offset: want a number of bytes")
	}
	if seeker, ok := f.(io.Seeker); ok {
		_, err = seeker.Seek(offset, io.SeekStart)
		return err
	}
	if _, err = io.CopyN(io.Discard, f, offset); errors.Is(err, io.EOF) {
		return nil // there is no more, which is an answer too
	}
	return err
}

// copyChunk is in how large pieces files are copied.
const copyChunk = 256 << 10

// These hide what else a reader or writer can do, so that CopyBuffer uses its
// buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

func names(entries []fs.DirEntry) io.Reader {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Name())
		b.WriteByte('\n')
	}
	return strings.NewReader(b.String())
}

// describe answers with descriptions.
func (t *target) describe(w http.ResponseWriter, ctx context.Context) error {
	files, err := t.files()
	if err != nil {
		return err
	}
	list := api.SandboxStatList{Stats: []api.SandboxStat{}}
	switch t.query.get("stat") {
	case "stat":
		err = one(&list, func() (fs.FileInfo, error) { return files.Stat(ctx, t.id, t.name) })
	case "lstat":
		err = one(&list, func() (fs.FileInfo, error) { return files.Lstat(ctx, t.id, t.name) })
		if err == nil && list.Stats[0].Type == api.SandboxStatTypeLink {
			list.Stats[0].Target, err = files.ReadLink(ctx, t.id, t.name)
		}
	case "list":
		err = t.tree(ctx, files, &list, "", 0)
	case "tree":
		err = t.tree(ctx, files, &list, "", maxDepth)
	default:
		err = problem.New("invalid", "stat: have stat, lstat, list and tree")
	}
	if err != nil {
		return err
	}
	return writeJSON(w, list)
}

func one(list *api.SandboxStatList, stat func() (fs.FileInfo, error)) error {
	info, err := stat()
	if err != nil {
		return err
	}
	list.Stats = append(list.Stats, statOf(path.Base(info.Name()), info))
	return nil
}

// maxTree and maxDepth bound what is told of a tree.
const (
	maxTree  = 100_000
	maxDepth = 256
)

// tree lists a directory, and depth levels of those in it. Links are not
// followed.
func (t *target) tree(ctx context.Context, files sandbox.FileSystem, list *api.SandboxStatList, below string, depth int) error {
	entries, err := files.ReadDir(ctx, t.id, path.Join(t.name, below))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if len(list.Stats) == maxTree {
			return problem.New(problem.TooLarge, "the tree has more than "+strconv.Itoa(maxTree)+" entries: list its directories")
		}
		info, err := e.Info()
		if err != nil {
			continue // it is gone by now
		}
		name := path.Join(below, e.Name())
		list.Stats = append(list.Stats, statOf(name, info))
		if !e.IsDir() || depth == 0 {
			continue
		}
		if err := t.tree(ctx, files, list, name, depth-1); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func (s *server) headFile(w http.ResponseWriter, r *http.Request) {
	t, err := s.target(r)
	if err == nil {
		err = t.head(w, r.Context())
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

func (t *target) head(w http.ResponseWriter, ctx context.Context) error {
	files, err := t.files()
	if err != nil {
		return err
	}
	info, err := files.Stat(ctx, t.id, t.name)
	if err != nil {
		return err
	}
	setStat(w.Header(), info)
	w.Header().Set("Last-Modified", info.ModTime().UTC().Format(http.TimeFormat))
	if info.Mode().IsRegular() {
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	}
	return nil
}

func (s *server) postFile(w http.ResponseWriter, r *http.Request) {
	t, err := s.target(r)
	if err == nil {
		err = t.post(w, r, s.uploads)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

func (t *target) post(w http.ResponseWriter, r *http.Request, uploads *uploads) error {
	perm, err := t.perm()
	if err != nil {
		return err
	}
	if t.query.is("mkdir") {
		files, err := t.files()
		if err == nil {
			err = files.Mkdir(r.Context(), t.id, t.name, perm, t.query.is("parents"))
		}
		if err != nil {
			return err
		}
		return writeJSON(w, api.SandboxWrote{Path: t.full})
	}
	// A name that ends in a slash is no file's, and the path of the answer
	// would not show it.
	if name := t.query.get("upload"); name != "" {
		ctx, leave := uploads.enter(r.Context(), t.id+"/"+name)
		defer leave()
		r = r.WithContext(ctx)
	}
	body := &counted{Reader: r.Body}
	if err := t.sandbox.WriteFile(r.Context(), t.name, body, perm); err != nil {
		return err
	}
	return writeJSON(w, api.SandboxWrote{Path: t.full, Bytes: body.n})
}

func (t *target) perm() (fs.FileMode, error) {
	text := t.query.get("mode")
	if text == "" {
		if t.query.is("mkdir") {
			return 0o700, nil
		}
		return filePerm, nil
	}
	mode, err := strconv.ParseUint(text, 8, 12)
	if err != nil {
		return 0, problem.New("invalid", "mode: want permission bits in octal, as 644")
	}
	return fs.FileMode(mode).Perm(), nil
}

// counted counts what is read.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func (s *server) deleteFile(w http.ResponseWriter, r *http.Request) {
	t, err := s.target(r)
	if err == nil {
		err = t.delete(r.Context(), s.uploads)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (t *target) delete(ctx context.Context, uploads *uploads) error {
	if name := t.query.get("upload"); name != "" {
		return uploads.cancel(ctx, t.id+"/"+name)
	}
	if t.query.is("tree") {
		return t.sandbox.RemoveAll(ctx, t.name)
	}
	return t.sandbox.Remove(ctx, t.name)
}
