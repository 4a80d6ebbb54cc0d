package server

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// PostSandboxByIDPreview mints a link to a port.
func (s typed) PostSandboxByIDPreview(ctx context.Context, r api.PostSandboxByIDPreviewRequestObject) (api.PostSandboxByIDPreviewResponseObject, error) {
	port := r.Body.Port
	if port < 1 || port > 65535 {
		return nil, problem.New("invalid", "port: want 1 to 65535")
	}
	p := principalOf(ctx)
	info, err := s.running(ctx, p, r.ID)
	if err != nil {
		return nil, err
	}
	of := previewed{info.ID, int(port)}
	ticket := s.tickets.mint(grant{principal: p, id: info.ID, what: previewTicket, port: of.port, run: info.Created})
	host := s.previews.authority(hostOf(ctx), of)
	return previewGrant{api.PostSandboxByIDPreview200JSONResponse{
		URL:  s.previews.scheme + "://" + host + s.previews.root(of) + "?ticket=" + ticket,
		Host: host, Port: port, ExpiresIn: int64(ticketLife / time.Second),
	}}, nil
}

type previewGrant struct {
	api.PostSandboxByIDPreview200JSONResponse
}

func (g previewGrant) VisitPostSandboxByIDPreviewResponse(w http.ResponseWriter) error {
	w.Header().Set("Cache-Control", "no-store")
	return g.PostSandboxByIDPreview200JSONResponse.VisitPostSandboxByIDPreviewResponse(w)
}

var (
	errOver      = problem.New(problem.Unauthorized, "the preview is over, or was never opened here: ask for a new link")
	errNoSuch    = problem.New(problem.NoRoute, "there is no preview of that name")
	errElsewhere = problem.New(problem.CrossOrigin, "a page of another site sent this")
)

// servePreview answers what is sent to where previews are, and reports whether
// this was.
func (s *server) servePreview(w http.ResponseWriter, r *http.Request) bool {
	of, named, ours := s.previews.ours(r)
	if !ours {
		return false
	}
	if !named {
		s.failPreview(w, r, errNoSuch)
		return true
	}
	root := s.previews.root(of)
	if r.URL.Path+"/" == root {
		http.Redirect(w, r, root, http.StatusPermanentRedirect)
		return true
	}
	if ticket := r.URL.Query().Get("ticket"); ticket != "" && r.URL.Path == root && s.redeem(w, r, of, ticket) {
		return true
	}
	pass, ok := s.passOf(r, of)
	var err error
	switch {
	case !fromItself(r, s.previews.scheme):
		err = errElsewhere
	case !ok:
		err = errOver
	default:
		err = s.rates.take(pass.Name)
	}
	if err == nil {
		err = s.stillOpen(r.Context(), pass)
	}
	if err != nil {
		s.failPreview(w, r, err)
		return true
	}
	// What goes on when its time is over, such as a socket, is cut.
	ctx, end := s.admission.lasting(r.Context(), pass.principal())
	defer end()
	ctx, cancel := context.WithDeadline(ctx, time.Unix(pass.Until, 0))
	defer cancel()
	s.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, passKey{}, pass)))
	return true
}

// redeem turns a ticket into a cookie. A ticket that is not ours may be the
// program's own, in which case the request is not answered.
func (s *server) redeem(w http.ResponseWriter, r *http.Request, of previewed, ticket string) bool {
	g, ok := s.tickets.take(ticket)
	if !ok || g.what != previewTicket || g.id != of.id || g.port != of.port {
		// A link that is opened again, in a browser that has the cookie, is as
		// good as the address without it.
		_, has := s.passOf(r, of)
		if !has || len(ticket) != ticketLen {
			return false
		}
		http.Redirect(w, r, s.previews.root(of), http.StatusSeeOther)
		return true
	}
	p := &pass{
		ID: of.id, Port: of.port, Run: g.run.UnixNano(), Until: time.Now().Add(previewLife).Unix(),
		Org: g.principal.Org, User: g.principal.User, Admin: g.principal.Admin, Name: g.principal.Name,
		Key: g.principal.Key[:],
	}
	if err := s.stillOpen(r.Context(), p); err != nil {
		s.failPreview(w, r, err)
		return true
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	http.SetCookie(w, s.previews.cookie(of, s.seal.close(p)))
	http.Redirect(w, r, s.previews.root(of), http.StatusSeeOther)
	return true
}

// stillOpen refuses once the sandbox has stopped running, also if it runs
// again since, and once the key is no more by which the preview was opened.
func (s *server) stillOpen(ctx context.Context, p *pass) error {
	if err := s.admission.stillHolds(ctx, p.principal()); err != nil {
		return err
	}
	info, err := s.running(ctx, p.principal(), p.ID)
	gone := errors.Is(err, sandbox.ErrConflict) || errors.Is(err, sandbox.ErrNotFound) || errors.Is(err, sandbox.ErrEnded) || errors.Is(err, sandbox.ErrLost)
	if gone || err == nil && info.Created.UnixNano() != p.Run {
		return errOver
	}
	return err
}

// fromItself reports whether a request may use the preview's cookie: it comes
// from a page of the preview, or is a person's step from elsewhere to it. It
// makes no difference whether it asks for a socket.
func fromItself(r *http.Request, scheme string) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		// A form of a page without referrers comes from null.
		null := origins[0] == "null" && site == "same-origin"
		return len(origins) == 1 && (null || strings.EqualFold(origins[0], scheme+"://"+r.Host))
	}
	switch site {
	case "", "none", "same-origin":
		return true
	}
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	return read && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

type passKey struct{}

func passIn(ctx context.Context) *pass { return ctx.Value(passKey{}).(*pass) }

// newProxy passes requests on to the ports of sandboxes.
func (s *server) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: s.rewrite, ModifyResponse: s.unwrite, ErrorHandler: s.failProxy,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), BufferPool: &buffers{},
		Transport: &http.Transport{
			DialContext: s.dialPreview,
			// A connection that is open keeps its sandbox from being idle.
			IdleConnTimeout: 15 * time.Second, MaxIdleConnsPerHost: 64, MaxIdleConns: 1024,
			DisableCompression: true, ExpectContinueTimeout: time.Second,
			MaxResponseHeaderBytes: 256 << 10,
		},
	}
}

// dialPreview connects to the port of the pass. The address keeps connections
// of different ports and runs apart, and says nothing else.
func (s *server) dialPreview(ctx context.Context, _, _ string) (net.Conn, error) {
	p := passIn(ctx)
	return sandbox.Handle(s.cfg.Sandboxes(p.principal().scope()), p.ID).DialContext(ctx, "tcp", "localhost:"+strconv.Itoa(p.Port))
}

// notForwarded are headers that only a proxy can be believed about.
var notForwarded = []string{
	"X-Forwarded-Prefix", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-Ssl", "X-Forwarded-Scheme",
	"X-Real-Ip", "X-Original-Url", "X-Rewrite-Url", "True-Client-Ip", "Cf-Connecting-Ip",
}

func (s *server) rewrite(r *httputil.ProxyRequest) {
	p := passIn(r.In.Context())
	of := previewed{p.ID, p.Port}
	r.Out.URL.Scheme = "http"
	r.Out.URL.Host = strconv.FormatInt(p.Run, 36) + "." + p.ID + ":" + strconv.Itoa(p.Port)
	r.Out.Host = r.In.Host
	for _, name := range notForwarded {
		r.Out.Header.Del(name)
	}
	// What was sent of these is gone already.
	r.SetXForwarded()
	r.Out.Header.Set("X-Forwarded-Proto", s.previews.scheme)
	if root := s.previews.root(of); root != "/" {
		r.Out.Header.Set("X-Forwarded-Prefix", strings.TrimSuffix(root, "/"))
		r.Out.URL.Path = "/" + strings.TrimPrefix(r.Out.URL.Path, root)
		if r.Out.URL.RawPath != "" {
			r.Out.URL.RawPath = "/" + strings.TrimPrefix(r.Out.URL.RawPath, root)
		}
	}
	// The query goes as it came, also what Go would not parse.
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	keepCookies(r.Out.Header)
	s.keepCredentials(r.In.Context(), r.Out.Header)
}

// keepCredentials takes out of a request what is good for this server. The
// program's own it keeps.
func (s *server) keepCredentials(ctx context.Context, h http.Header) {
	for _, name := range []string{"Authorization", "X-Authorization"} {
		for _, value := range h.Values(name) {
			_, token, _ := strings.Cut(value, " ")
			token = strings.TrimSpace(token)
			ours := strings.HasPrefix(token, KeyPrefix) || strings.HasPrefix(value, KeyPrefix)
			if !ours && s.admission.oidc != nil && strings.Count(token, ".") == 2 {
				_, err := s.admission.oidc.verify(ctx, token)
				ours = err == nil
			}
			if ours {
				h.Del(name)
			}
		}
	}
	if values := h.Values("X-Api-Key"); len(values) > 0 && (s.admission.isService(values) || strings.HasPrefix(values[0], KeyPrefix)) {
		h.Del("X-Api-Key")
	}
}

// unwrite keeps an answer to its own origin.
func (s *server) unwrite(r *http.Response) error {
	p := passIn(r.Request.Context())
	root := s.previews.root(previewed{p.ID, p.Port})
	narrowCookies(r.Header, root)
	narrowClearing(r.Header)
	if root == "/" {
		return nil
	}
	// The others at this host are to be left alone.
	r.Header.Del("Service-Worker-Allowed")
	r.Header.Del("Clear-Site-Data")
	if at := r.Header.Get("Location"); strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "//") {
		r.Header.Set("Location", root+at[1:])
	}
	return nil
}

func (s *server) failProxy(w http.ResponseWriter, r *http.Request, err error) {
	p, known := problem.Of(err)
	switch {
	case r.Context().Err() != nil:
		p = problem.New("canceled", "the request was given up")
	case errors.Is(err, sandbox.ErrConflict), errors.Is(err, sandbox.ErrNotFound), errors.Is(err, sandbox.ErrEnded), errors.Is(err, sandbox.ErrLost):
		p = errOver
	case p.Code == "connection_refused":
		p = problem.New("connection_refused", "nothing listens on port "+strconv.Itoa(passIn(r.Context()).Port)+" in the sandbox")
	case !known:
		s.log.Debug("a preview failed", "error", err)
		p = problem.New("canceled", "the program on that port did not answer")
	}
	s.failPreview(w, r, p)
}

var previewPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{{.Title}}</title>
<body><h1>{{.Title}}</h1><p>{{.Detail}}</p>
`))

// failPreview answers in the place of a preview: with a page where one is
// looked for.
func (s *server) failPreview(w http.ResponseWriter, r *http.Request, err error) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.fail(w, r, err)
		return
	}
	p, known := problem.Of(err)
	if !known {
		s.log.Error("a preview failed", "error", err)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	previewPage.Execute(w, p.Details) //nolint:errcheck // the browser may be gone
}

// buffers are those that answers are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, copyChunk)
}

func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }
