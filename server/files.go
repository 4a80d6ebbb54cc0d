package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/internal/workpath"
	"github.com/hanzoai/sandbox/sandbox"
)

// filePerm is the mode of a file that asks for none.
const filePerm = 0o600

// fileName is a path from the wire, by the published rule: white space around
// it is dropped, and what has ".." in it is refused, be it in the middle of a
// name.
func fileName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if strings.Contains(name, "..") {
		return "", problem.New("invalid_path", "path must not contain ..")
	}
	return orDot(name), nil
}

func orDot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

// ReadSandboxFile reads a file or lists a directory.
func (s typed) ReadSandboxFile(ctx context.Context, r api.ReadSandboxFileRequestObject) (api.ReadSandboxFileResponseObject, error) {
	all := s.sandboxes(ctx)
	info, err := all.Info(ctx, r.Body.ID)
	if err != nil {
		return nil, err
	}
	name, err := fileName(r.Body.Path)
	if err != nil {
		return nil, err
	}
	full, err := workpath.Resolve(info.Workdir, name)
	if err != nil {
		return nil, problem.New("invalid_path", "path must be under "+info.Workdir)
	}
	f, err := all.Open(ctx, r.Body.ID, name)
	if err != nil {
		return nil, err
	}
	stat, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !stat.IsDir() {
		return &blob{path: full, file: f}, nil
	}
	defer f.Close()
	entries, err := readDir(f)
	if err != nil {
		return nil, err
	}
	return listing(full, entries), nil
}

func readDir(f fs.File) ([]fs.DirEntry, error) {
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return dir.ReadDir(-1)
}

// A folder is an answer about a directory, in which an empty one has no
// entries rather than none that are told.
type folder struct {
	Path    string            `json:"path"`
	Dir     bool              `json:"dir"`
	Entries []string          `json:"entries"`
	Stats   []api.SandboxStat `json:"stats"`
}

func listing(full string, entries []fs.DirEntry) *folder {
	l := &folder{Path: full, Dir: true, Entries: []string{}, Stats: []api.SandboxStat{}}
	for _, e := range entries {
		l.Entries = append(l.Entries, e.Name())
		if info, err := e.Info(); err == nil { // else it is gone by now
			l.Stats = append(l.Stats, statOf(e.Name(), info))
		}
	}
	return l
}

func (l *folder) VisitReadSandboxFileResponse(w http.ResponseWriter) error { return writeJSON(w, l) }

// A blob is a file's bytes in base64, which are streamed: a value of that size
// would be held in memory several times over.
type blob struct {
	path string
	file fs.File
}

func (b *blob) VisitReadSandboxFileResponse(w http.ResponseWriter) error {
	defer b.file.Close()
	name, err := json.Marshal(b.path)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"path":`+string(name)+`,"dir":false,"data":"`)
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := io.Copy(encoder, b.file); err != nil {
		panic(http.ErrAbortHandler) // half a file is not to be taken for one
	}
	encoder.Close()
	io.WriteString(w, "\"}\n")
	return nil
}

// WriteSandboxFile writes a file.
func (s typed) WriteSandboxFile(ctx context.Context, r api.WriteSandboxFileRequestObject) (api.WriteSandboxFileResponseObject, error) {
	all := s.sandboxes(ctx)
	info, err := all.Info(ctx, r.Body.ID)
	if err != nil {
		return nil, err
	}
	name, err := fileName(r.Body.Path)
	if err != nil {
		return nil, err
	}
	full, err := workpath.Resolve(info.Workdir, name)
	if err != nil {
		return nil, problem.New("invalid_path", "path must be under "+info.Workdir)
	}
	if err := sandbox.Handle(all, r.Body.ID).WriteFile(ctx, name, strings.NewReader(string(r.Body.Data)), filePerm); err != nil {
		return nil, err
	}
	return api.WriteSandboxFile200JSONResponse{Path: full, Bytes: int64(len(r.Body.Data))}, nil
}

// statOf describes a file. A name that is no UTF-8 goes along in base64, as
// JSON has no other way to say it.
func statOf(name string, info fs.FileInfo) api.SandboxStat {
	stat := api.SandboxStat{
		Name: name, Type: fileKind(info.Mode()), Size: info.Size(), Mode: int64(info.Mode()), Mtime: info.ModTime().UTC(),
	}
	if !utf8.ValidString(name) {
		stat.Base64 = []byte(name)
	}
	return stat
}

// statHeader has the description of what a raw answer is of.
const statHeader = "Sandbox-Stat"

func setStat(h http.Header, info fs.FileInfo) {
	text, err := json.Marshal(statOf(path.Base(info.Name()), info))
	if err == nil { // of strings and numbers
		h.Set(statHeader, ascii(text))
	}
}

// ascii spells JSON without what a header cannot have.
func ascii(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
