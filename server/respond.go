package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/internal/problem"
)

// fail answers with an error. What is not for callers is logged.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = problem.New(problem.TooLarge, "the body exceeds "+strconv.FormatInt(large.Limit, 10)+" bytes")
	}
	p, known := problem.Of(err)
	if !known {
		s.log.Error("a request failed", "route", r.Pattern, "error", err)
	}
	if takesFile(r.Pattern) {
		leaveBody(w)
	}
	s.write(w, p)
}

// leaveBody has the answer not wait for the rest of a body, which may be
// gigabytes away, or never come.
func leaveBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(past) //nolint:errcheck // without one the answer comes later
}

// retryAfter is what 429 says, in seconds.
const retryAfter = 1

func (s *server) write(w http.ResponseWriter, p *problem.Error) {
	body, err := json.Marshal(p.Details)
	if err != nil {
		panic(err) // of strings and numbers
	}
	h := w.Header()
	h.Set("Content-Type", problem.MediaType)
	h.Set("Cache-Control", "no-store")
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="sandbox"`)
	case http.StatusTooManyRequests:
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(p.Status)
	w.Write(body)
}

func writeJSON(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(append(body, '\n'))
	return err
}

// badBody answers for a body that could not be decoded.
func (s *server) badBody(w http.ResponseWriter, r *http.Request, err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		s.fail(w, r, err)
		return
	}
	detail := "invalid body: " + strings.TrimPrefix(err.Error(), "can't decode JSON body: ")
	if errors.Is(err, io.EOF) {
		detail = "invalid body: it is missing, and a JSON object is wanted"
	}
	if r.Context().Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) {
		detail = "invalid body: it ends in the middle"
	}
	s.fail(w, r, problem.New(problem.BadRequest, cut(detail)))
}

func (s *server) badParameter(w http.ResponseWriter, r *http.Request, err error) {
	s.fail(w, r, problem.New(problem.BadRequest, cut(err.Error())))
}

// cut keeps what a caller sent from filling an answer.
func cut(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// jsonBody bounds a body that is decoded, in size and time.
func (s *server) jsonBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
		return nil
	}
	if kind := r.Header.Get("Content-Type"); kind != "" && !isJSON(kind) {
		return problem.New(problem.UnsupportedMediaType, "the body is to be application/json")
	}
	if r.ContentLength > s.cfg.Limits.JSONBody {
		return &http.MaxBytesError{Limit: s.cfg.Limits.JSONBody}
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil // a socket's connection is not to be read by a clock
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(s.cfg.Limits.BodyTime)) == nil {
		r.Body = &timedBody{r.Body, func() { control.SetReadDeadline(time.Time{}) }}
	}
	r.Body = http.MaxBytesReader(w, r.Body, s.cfg.Limits.JSONBody)
	return nil
}

// timedBody ends its deadline with its end, so that it is none for the
// answer.
type timedBody struct {
	io.ReadCloser
	over func()
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.over()
	}
	return n, err
}

func isJSON(kind string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	kind = strings.TrimSpace(kind)
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// fileBody bounds a body that is streamed, in size alone.
func (s *server) fileBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > s.cfg.Limits.FileBody {
		return &http.MaxBytesError{Limit: s.cfg.Limits.FileBody}
	}
	r.Body = http.MaxBytesReader(w, r.Body, s.cfg.Limits.FileBody)
	return nil
}

// sandboxes are those that the caller of a request sees.
func (s *server) sandboxes(ctx context.Context) Sandboxes {
	return s.cfg.Sandboxes(principalOf(ctx).scope())
}
