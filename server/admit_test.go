package server_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A route is an operation of the document, or an alias of one.
type route struct {
	id, method, path string
	public, service  bool // who is let in, by the document
	ticket           bool // a socket, which wants a ticket in the place of a credential
}

// routes are all that the document has.
func routes(t testing.TB) []route {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.YAML)
	if err != nil {
		t.Fatal(err)
	}
	var list []route
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			r := route{id: op.OperationID, method: method, path: path}
			if op.Security != nil {
				r.public = len(*op.Security) == 0
				for _, s := range *op.Security {
					_, ok := s["serviceKey"]
					r.service = r.service || ok
					_, r.ticket = s["ticket"]
				}
			}
			list = append(list, r)
			aliases, _ := op.Extensions["x-aliases"].([]any)
			for _, alias := range aliases {
				a := r
				a.path = alias.(string)
				list = append(list, a)
			}
		}
	}
	return list
}

var fill = strings.NewReplacer(
	"{port}", "80", "{session_id}", "{id}", "{sid}", "{id}", "{fileId}", "file", "{id}", "xxxxxxxxxxxxxxxxxxxxx")

// spellings are ways to write a path that a router or a proxy may take for
// the same.
func spellings(path string) []string {
	list := []string{
		path, path + "/", path + "//", "/" + path, strings.ToUpper(path), strings.Replace(path, "/v1", "/V1", 1),
		strings.Replace(path, "/v1", "//v1", 1), strings.Replace(path, "/v1/", "/v1//", 1), strings.Replace(path, "/v1/", "/v1/./", 1),
		strings.Replace(path, "/v1/", "/v1/x/../", 1), strings.Replace(path, "/v1/", "/v1/%2e/", 1), strings.Replace(path, "/v1/", "/v1/x/%2e%2e/", 1),
		strings.Replace(path, "/v1/", "/v1/..%2fv1/", 1), strings.Replace(path, "/v1/", "/v1%2f", 1), strings.Replace(path, "v1", "%76%31", 1),
		"/livez/.." + path, "/livez/%2e%2e" + path, "/livez%2f.." + path, path + "%00", path + ";x=1", path + "?x=1", path + "%20", path + "/.", path + "/..%2f",
		"/docs/..%2f.." + path, path + "#frag", path + "/%2e%2e/x",
	}
	if i := strings.LastIndex(path, "/"); i > 0 {
		list = append(list, path[:i]+"%2F"+path[i+1:], path[:i]+"/%"+hex(path[i+1])+path[i+2:])
	}
	return list
}

func hex(b byte) string { return string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15]) }

// A credential is a state of a request's headers.
type credential struct {
	name    string
	header  http.Header
	member  bool // opens members' routes
	service bool // opens the code interpreter's
	org     bool // is of an organisation
}

func credentials(keys keyring, serviceKey string) []credential {
	good, noOrg := keys.add("acme", "ada", false), keys.add("", "ada", false)
	revoked := keys.add("acme", "ada", false)
	keys.revoke(revoked, time.Now())
	h := func(kv ...string) http.Header {
		header := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			header.Add(kv[i], kv[i+1])
		}
		return header
	}
	return []credential{
		{name: "none", header: h()},
		{name: "headers that claim", header: h("X-Org-Id", "acme", "X-Hanzo-Org", "acme", "User-Id", "ada", "X-Forwarded-User", "ada", "X-User-Id", "ada", "X-Original-URL", "/livez", "X-Rewrite-URL", "/livez")},
		{name: "cookie", header: h("Cookie", "session="+good)},
		{name: "unknown key", header: h("Authorization", "Bearer "+server.NewKey())},
		{name: "revoked key", header: h("Authorization", "Bearer "+revoked)},
		{name: "publishable key", header: h("Authorization", "Bearer pk-"+good[3:])},
		{name: "no key at all", header: h("Authorization", "Bearer ")},
		{name: "other scheme", header: h("Authorization", "Basic "+good)},
		{name: "key without a scheme", header: h("Authorization", good)},
		{name: "two keys", header: h("Authorization", "Bearer "+good, "Authorization", "Bearer "+good)},
		{name: "token of nobody", header: h("Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJvd25lciI6ImFjbWUifQ.")},
		{name: "key in the query", header: h("X-Query", good)},
		{name: "wrong service key", header: h("X-API-Key", serviceKey+"x")},
		{name: "empty service key", header: h("X-API-Key", "")},
		{name: "key as the service key", header: h("X-API-Key", good)},
		{name: "service key as the bearer", header: h("Authorization", "Bearer "+serviceKey)},
		{name: "good and a wrong service key", header: h("Authorization", "Bearer "+good, "X-API-Key", "wrong"), member: true, org: true},
		{name: "wrong and a good service key", header: h("Authorization", "Bearer "+server.NewKey(), "X-API-Key", serviceKey)},
		{name: "key of no organisation", header: h("Authorization", "Bearer "+noOrg), member: true, service: true},
		{name: "service key", header: h("X-API-Key", serviceKey), service: true, org: true},
		{name: "key", header: h("Authorization", "bearer "+good), member: true, service: true, org: true},
		{name: "both", header: h("Authorization", "Bearer "+good, "X-API-Key", serviceKey), member: true, service: true, org: true},
	}
}

// A tripwire is a server's sandboxes, of which any use is counted.
type tripwire struct {
	*memory
	used int
}

func (w *tripwire) For(o sandbox.Owner) server.Sandboxes {
	w.used++
	return w.memory.For(o)
}

// TestNobodyGetsInWithoutACredential walks every route with every state of
// credentials and in every spelling.
func TestNobodyGetsInWithoutACredential(t *testing.T) {
	const serviceKey = "the-service-key"
	keys := keyring{}
	wire := &tripwire{memory: newMemory(t)}
	h, err := server.New(server.Config{
		Sandboxes: wire.For, Keys: keys, ServiceKey: serviceKey, Interpreter: noInterpreter{},
		Limits: server.Limits{Rate: 1e9, Burst: 1e9},
	})
	if err != nil {
		t.Fatal(err)
	}
	states := credentials(keys, serviceKey)
	for _, r := range routes(t) {
		path := fill.Replace(fill.Replace(r.path))
		for _, c := range states {
			for i, spelling := range spellings(path) {
				wire.used = 0
				status, problem := ask(t, h, r.method, spelling, c.header)
				where := c.name + ": " + r.method + " " + spelling
				letIn := r.public || !r.ticket && c.org && (c.member && !r.service || c.service && r.service)
				if wire.used > 0 && !letIn {
					t.Fatalf("%s reached the sandboxes", where)
				}
				if status < 300 && !letIn && !public(spelling) {
					t.Fatalf("%s is %d", where, status)
				}
				if i > 0 {
					continue
				}
				switch {
				case letIn && (status == 401 || status == 403):
					t.Errorf("%s is %d %s", where, status, problem)
				case r.ticket && status != 400 && status != 401:
					t.Errorf("%s is %d", where, status)
				case !r.ticket && !letIn && !c.org && (c.member && !r.service || c.service && r.service) && status != 403:
					t.Errorf("%s is %d, and its holder is of no organisation", where, status)
				case !r.ticket && !letIn && !(c.member || c.service) && status != 401:
					t.Errorf("%s is %d", where, status)
				}
			}
		}
	}
}

// public are paths that lead to what is open, whatever comes before.
func public(spelling string) bool {
	return strings.HasPrefix(spelling, "/livez") || strings.HasPrefix(spelling, "/docs") || strings.HasPrefix(spelling, "/readyz") || strings.HasPrefix(spelling, "/openapi")
}

// ask sends a request as it is written, past all that would tidy it.
func ask(t *testing.T, h http.Handler, method, target string, header http.Header) (int, string) {
	t.Helper()
	path, _, _ := strings.Cut(target, "#")
	r, err := http.NewRequest(method, "http://x/", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := r.URL.Parse("http://x")
	if err != nil {
		t.Fatal(err)
	}
	raw, query, _ := strings.Cut(path, "?")
	parsed.RawQuery = query
	if parsed.Path, err = unescape(raw); err != nil {
		return 400, ""
	}
	parsed.RawPath = raw
	r.URL, r.RequestURI, r.Host = parsed, path, "x"
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestDoors has the routes be those of the document, and no other.
func TestDoors(t *testing.T) {
	keys := keyring{}
	s := start(t, server.Config{Sandboxes: newMemory(t).For, Keys: keys, Interpreter: noInterpreter{}})
	key := keys.add("acme", "ada", false)
	for _, r := range routes(t) {
		is := is.New(t)
		req, err := http.NewRequestWithContext(t.Context(), r.method, s.URL+fill.Replace(fill.Replace(r.path)), nil)
		is.NoErr(err)
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		is.NoErr(err)
		body, err := io.ReadAll(resp.Body)
		is.NoErr(err)
		resp.Body.Close()
		if bytes.Contains(body, []byte("no_such_route")) || resp.StatusCode == http.StatusMethodNotAllowed {
			t.Errorf("%s %s is not served", r.method, r.path)
		}
	}
}

// TestStrangers has another's sandbox read as one that never was, byte for
// byte.
func TestStrangers(t *testing.T) {
	keys := keyring{}
	m := newMemory(t)
	h, err := server.New(server.Config{Sandboxes: m.For, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := m.For(sandbox.Owner{Org: "acme", Actor: "ada"}).Lease(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	strangers := map[string]string{
		"another member": keys.add("acme", "bob", false),
		"another org":    keys.add("other", "", false),
		"its admin":      keys.add("other", "ada", true),
	}
	const never = "xxxxxxxxxxxxxxxxxxxxx"
	for name, key := range strangers {
		for _, r := range routes(t) {
			if r.public || !strings.Contains(r.path, "{id}") && !bodyHasID[r.id] {
				continue
			}
			answer := func(id string) string {
				path := strings.NewReplacer("{id}", id, "{port}", "80").Replace(r.path)
				body := `{"id":"` + id + `","argv":["true"],"path":"x","port":80}`
				req := httptest.NewRequest(r.method, path, strings.NewReader(body))
				req.Header.Set("Authorization", "Bearer "+key)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Upgrade", "websocket")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				var b bytes.Buffer
				w.Result().Header.Write(&b)
				return http.StatusText(w.Code) + b.String() + w.Body.String()
			}
			theirs, none := answer(sb.ID()), answer(never)
			if theirs != none {
				t.Errorf("%s: %s tells another's sandbox from none:\n%s\n%s", name, r.id, theirs, none)
			}
			if !r.ticket && !strings.Contains(none, "Not Found") {
				t.Errorf("%s: %s of no sandbox: %s", name, r.id, none)
			}
		}
	}
	if _, err := m.Info(t.Context(), sb.ID()); err != nil {
		t.Errorf("a stranger ended it: %v", err)
	}
	for name, key := range map[string]string{"its lessee": keys.add("acme", "ada", false), "its admin": keys.add("acme", "eve", true), "its org": keys.add("acme", "", false)} {
		req := httptest.NewRequest(http.MethodGet, "/v1/sandbox/"+sb.ID(), nil)
		req.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != 200 {
			t.Errorf("%s gets %d", name, w.Code)
		}
	}
}

var bodyHasID = map[string]bool{"end_sandbox": true, "run_in_sandbox": true, "stop_run": true, "read_sandbox_file": true, "write_sandbox_file": true}

func TestChallenge(t *testing.T) {
	is := is.New(t)
	s := start(t, server.Config{Sandboxes: newMemory(t).For})
	resp, err := http.Get(s.URL + "/v1/sandbox")
	is.NoErr(err)
	defer resp.Body.Close()
	is.Equal(resp.StatusCode, 401)
	is.True(strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer"))
	is.Equal(resp.Header.Get("Content-Type"), "application/problem+json")
}

// TestBrowsers has a page of another site do nothing.
func TestBrowsers(t *testing.T) {
	is := is.New(t)
	keys := keyring{}
	s := start(t, server.Config{Sandboxes: newMemory(t).For, Keys: keys})
	key := keys.add("acme", "ada", false)
	for _, header := range []http.Header{{"Origin": {"https://evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}} {
		req, err := http.NewRequest(http.MethodPost, s.URL+"/v1/sandbox", strings.NewReader("{}"))
		is.NoErr(err)
		req.Header = header.Clone()
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		is.NoErr(err)
		resp.Body.Close()
		is.Equal(resp.StatusCode, 403)
	}
}

// TestRawRequests sends what a client library would not.
func TestRawRequests(t *testing.T) {
	s := start(t, server.Config{Sandboxes: newMemory(t).For, Keys: keyring{}})
	for _, line := range []string{
		"GET //v1/sandbox HTTP/1.1", "GET /v1/../v1/sandbox HTTP/1.1", "GET /v1/sandbox%00 HTTP/1.1", "GET /%2e%2e/v1/sandbox HTTP/1.1",
		"GET http://other/v1/sandbox HTTP/1.1", "POST /v1//exec HTTP/1.1", "CONNECT /v1/sandbox HTTP/1.1", "OPTIONS * HTTP/1.1", "GET *v1/sandbox HTTP/1.1",
	} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, line+"\r\nHost: x\r\nConnection: close\r\n\r\n")
		answer, err := io.ReadAll(conn)
		conn.Close()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(answer, []byte(" 200 ")) && !strings.HasPrefix(line, "OPTIONS *") || bytes.Contains(answer, []byte("sandboxes")) {
			t.Errorf("%s: %.200s", line, answer)
		}
	}
}
