package server

import (
	"bytes"
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
		defer linger(w)
	}
	s.write(w, p)
}

// leaveBody has the answer not wait for the rest of a body, which may be
// gigabytes away, or never come.
func leaveBody(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(past) //nolint:errcheck // without one the answer comes later
}

// lingering is how long a caller who is still sending has to notice that he
// has been answered.
const lingering = time.Second

// linger takes what still comes after the answer, until the caller has closed.
// A connection with something in it that nobody has read is reset when it is
// closed, and the answer can be lost with it; net/http sees to that only where
// it reads the body itself.
func linger(w http.ResponseWriter) {
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		return
	}
	conn, _, err := control.Hijack()
	if err != nil {
		return // as of HTTP/2, where a body is not the connection
	}
	defer conn.Close()
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil && conn.SetReadDeadline(time.Now().Add(lingering)) == nil {
		io.Copy(io.Discard, conn) //nolint:errcheck // it is not wanted
	}
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
	h.Set("Content-Length", strconv.Itoa(len(body)))
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

func (s *server) badParameter(w http.ResponseWriter, r *http.Request, err error) {
	s.fail(w, r, problem.New(problem.BadRequest, err.Error()))
}

// jsonBody reads a body that is decoded, within its bounds of size and time.
// It is read to its end, as only then it is noticed that the caller hangs up.
func (s *server) jsonBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
		return nil
	}
	if kind := r.Header.Get("Content-Type"); kind != "" && !isJSON(kind) {
		return problem.New(problem.UnsupportedMediaType, "the body is to be application/json")
	}
	limit := s.cfg.Limits.JSONBody
	if r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	control := http.NewResponseController(w)
	timed := control.SetReadDeadline(time.Now().Add(s.cfg.Limits.BodyTime)) == nil
	b, err := io.ReadAll(http.MaxBytesReader(untimed(w), r.Body, limit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return err
	}
	if err != nil {
		return problem.New(problem.BadRequest, "invalid body: it ends in the middle")
	}
	if timed {
		control.SetReadDeadline(time.Time{}) //nolint:errcheck // it could be set
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return nil
}

func isJSON(kind string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	kind = strings.TrimSpace(kind)
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// fileBody bounds a body that is streamed: in size, and in how long nothing
// may come.
func (s *server) fileBody(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > s.cfg.Limits.FileBody {
		return &http.MaxBytesError{Limit: s.cfg.Limits.FileBody}
	}
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Time{}) == nil {
		r.Body = &timedBody{r.Body, control, s.cfg.Limits.StallTime}
	}
	r.Body = http.MaxBytesReader(untimed(w), r.Body, s.cfg.Limits.FileBody)
	return nil
}

// A timedBody gives each Read its time.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.control.SetReadDeadline(time.Now().Add(b.stall)) //nolint:errcheck // it could be set
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.control.SetReadDeadline(time.Time{}) //nolint:errcheck // as above; the answer takes what it takes
	}
	return n, err
}

// A timedWriter gives each piece of an answer its time to be taken, and the
// last what is left of it.
type timedWriter struct {
	http.ResponseWriter
	stall time.Duration
}

func (w *timedWriter) Write(p []byte) (n int, err error) {
	control := http.NewResponseController(w.ResponseWriter)
	for len(p) > 0 && err == nil {
		var m int
		control.SetWriteDeadline(time.Now().Add(w.stall)) //nolint:errcheck // what has none is not of a connection
		m, err = w.ResponseWriter.Write(p[:min(len(p), copyChunk)])
		n, p = n+m, p[m:]
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// untimed is the answer without that: what waits for its reader, or asks
// net/http for what it does for its own alone.
func untimed(w http.ResponseWriter) http.ResponseWriter {
	if timed, ok := w.(*timedWriter); ok {
		return timed.ResponseWriter
	}
	return w
}

// sandboxes are those that the caller of a request sees.
func (s *server) sandboxes(ctx context.Context) Sandboxes {
	return s.cfg.Sandboxes(principalOf(ctx).scope())
}
