package server

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// closeAfter has the client open a new connection next: some keep a listener
// of a file's transfer on the old one, and hang up on the run that follows.
func closeAfter(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

// maxField bounds a form field that is no file.
const maxField = 64 << 10

// upload puts the files of a form into a session, one after the other as they
// come.
func (s *server) upload(w http.ResponseWriter, r *http.Request) {
	closeAfter(w)
	out, err := s.takeForm(r)
	if err == nil {
		err = writeJSON(w, out)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

func (s *server) takeForm(r *http.Request) (_ *api.ExecUploadOut, err error) {
	interpreter, err := s.interpreter()
	if err != nil {
		return nil, err
	}
	form, err := r.MultipartReader()
	if err != nil {
		return nil, problem.New(problem.UnsupportedMediaType, "the body is to be multipart/form-data")
	}
	owner := principalOf(r.Context()).lessee()
	out := &api.ExecUploadOut{Message: "success", Files: []api.ExecUploaded{}}
	readOnly := false
	made := "" // the session that was opened for this form
	defer func() {
		if err != nil && made != "" {
			s.discard(r.Context(), owner, made)
		}
	}()
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, badForm(err)
		}
		name, isFile, err := partName(part)
		if err != nil {
			return nil, err
		}
		if !isFile {
			value, err := field(part)
			if err != nil {
				return nil, err
			}
			switch {
			case name == "session_id" && len(out.Files) == 0:
				out.SessionID = value
			case name == "read_only":
				readOnly = value == "true"
			}
			continue
		}
		file, err := interpreter.Put(r.Context(), owner, Upload{Session: out.SessionID, Name: name, Content: part, ReadOnly: readOnly})
		if err != nil {
			return nil, s.leaseError(badForm(err))
		}
		if file.Session != out.SessionID {
			made, out.SessionID = file.Session, file.Session
		}
		out.Files = append(out.Files, api.ExecUploaded{FileID: file.ID, Filename: file.Name})
	}
	if len(out.Files) == 0 {
		return nil, problem.New("invalid", "the form has no file")
	}
	out.StorageSessionID = out.SessionID
	return out, nil
}

// discard ends a session that its owner has not been told of.
func (s *server) discard(ctx context.Context, owner sandbox.Owner, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	if err := s.cfg.Sandboxes(owner).End(ctx, id); err != nil && !gone(err) {
		s.log.Warn("the session of a form that failed stays until its lease ends", "id", id, "error", err)
	}
}

// discardTimeout bounds it.
const discardTimeout = 10 * time.Second

// badForm tells a form that is broken from a server that is.
func badForm(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	_, header := errors.AsType[textproto.ProtocolError](err)
	if header || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, multipart.ErrMessageTooLarge) || strings.HasPrefix(err.Error(), "multipart: ") {
		return problem.New(problem.BadRequest, "invalid body: the form is broken")
	}
	return err
}

// partName is the whole name of a file, folders too, which FileName would cut
// off; or the name of another field.
func partName(part *multipart.Part) (name string, isFile bool, err error) {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return "", false, problem.New(problem.BadRequest, "invalid body: a part's Content-Disposition cannot be read")
	}
	name, isFile = params["filename"]
	if !isFile {
		return params["name"], false, nil
	}
	if !goodName(name) {
		return "", false, problem.New("invalid_path", "a file's name is to be a path below the working directory")
	}
	return name, true, nil
}

func goodName(name string) bool {
	return name != "" && name != "." && utf8.ValidString(name) && !strings.ContainsRune(name, 0) && len(name) <= 4096 &&
		!path.IsAbs(name) && path.Clean(name) == name && name != ".." && !strings.HasPrefix(name, "../")
}

// field reads a field that is no file.
func field(part *multipart.Part) (string, error) {
	value, err := io.ReadAll(io.LimitReader(part, maxField+1))
	if err != nil {
		return "", badForm(err)
	}
	if len(value) > maxField {
		return "", problem.New(problem.TooLarge, "a field of the form is too long")
	}
	return strings.TrimSpace(string(value)), nil
}

// download answers with a file's bytes.
func (s *server) download(w http.ResponseWriter, r *http.Request) {
	closeAfter(w)
	if err := s.sendFile(w, r); err != nil {
		s.fail(w, r, err)
	}
}

func (s *server) sendFile(w http.ResponseWriter, r *http.Request) error {
	interpreter, err := s.interpreter()
	if err != nil {
		return err
	}
	f, file, err := interpreter.Open(r.Context(), principalOf(r.Context()).scope(), r.PathValue("session_id"), r.PathValue("fileId"))
	if err != nil {
		return err
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", contentType(file.Name))
	h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+attrEscape.Replace(url.PathEscape(path.Base(file.Name))))
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("Last-Modified", file.ModTime.UTC().Format(http.TimeFormat))
	if _, err := io.CopyBuffer(onlyWriter{w}, onlyReader{f}, make([]byte, copyChunk)); err != nil {
		panic(http.ErrAbortHandler) // half a file is not to be taken for one
	}
	return nil
}

// attrEscape escapes what a path may have and a parameter may not: RFC 8187.
var attrEscape = strings.NewReplacer("=", "%3D", ":", "%3A", "@", "%40")

func contentType(name string) string {
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

// listFiles answers with a bare array.
func (s *server) listFiles(w http.ResponseWriter, r *http.Request) {
	closeAfter(w)
	rows, err := s.fileRows(r)
	if err == nil {
		err = writeJSON(w, rows)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

func (s *server) fileRows(r *http.Request) ([]api.ExecFileRow, error) {
	interpreter, err := s.interpreter()
	if err != nil {
		return nil, err
	}
	session := r.PathValue("sid")
	files, err := interpreter.Files(r.Context(), principalOf(r.Context()).scope(), session)
	if err != nil {
		return nil, err
	}
	rows := make([]api.ExecFileRow, 0, len(files))
	for _, f := range files {
		row := api.ExecFileRow{
			Name: session + "/" + f.ID, ID: f.ID, StorageSessionID: session, Size: f.Size,
			LastModified: f.ModTime.UTC().Truncate(time.Millisecond), ContentType: contentType(f.Name),
		}
		row.Metadata.OriginalFilename = f.Name
		rows = append(rows, row)
	}
	return rows, nil
}
