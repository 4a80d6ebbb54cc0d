package server_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// TestEnded asks everything of a sandbox that has ended.
func TestEnded(t *testing.T) {
	d := newDesk(t, server.Config{})
	d.send(t.Context(), http.MethodDelete, "/v1/sandbox/"+d.id, "")
	for _, r := range routes(t) {
		if !strings.Contains(r.path, "{id}") && !bodyHasID[r.id] || r.public || r.ticket {
			continue // pages are the same for all, and their sockets take no key
		}
		path := strings.NewReplacer("{id}", d.id, "{port}", "80").Replace(r.path)
		req, err := http.NewRequestWithContext(t.Context(), r.method, d.url+path, strings.NewReader(`{"id":"`+d.id+`","argv":["true"],"path":"x","port":80}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + d.key}, "Content-Type": {"application/json"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusNotImplemented {
			t.Errorf("%s is %d: %.200s", r.id, resp.StatusCode, body)
		}
		if resp.StatusCode == http.StatusNotFound && r.method != http.MethodHead && !bytes.Contains(body, []byte(`"sandbox_ended"`)) {
			t.Errorf("%s does not say that it has ended: %.200s", r.id, body)
		}
	}
}

// TestClaimedOrg has headers that name an organisation mean nothing.
func TestClaimedOrg(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{})
	for _, name := range []string{"X-Org-Id", "X-Hanzo-Org", "X-Tenant", "User-Id", "X-Forwarded-User"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v1/sandbox?org=other", nil)
		is.NoErr(err)
		req.Header.Set("Authorization", "Bearer "+d.keys.add("other", "eve", true))
		req.Header.Set(name, "acme")
		resp, err := http.DefaultClient.Do(req)
		is.NoErr(err)
		body, err := io.ReadAll(resp.Body)
		is.NoErr(err)
		resp.Body.Close()
		is.Equal(resp.StatusCode, 200)
		is.Equal(strings.TrimSpace(string(body)), `{"sandboxes":[]}`)
	}
}

// TestCeiling has the numbers of a ceiling cross the wire.
func TestCeiling(t *testing.T) {
	is := is.New(t)
	r, _ := remote(t, server.Config{})
	for range 16 {
		_, err := r.Lease(t.Context(), sandbox.Spec{})
		is.NoErr(err)
	}
	_, err := r.Lease(t.Context(), sandbox.Spec{})
	is.True(errors.Is(err, sandbox.ErrCeiling))
	e, ok := errors.AsType[*sandbox.CeilingError](err)
	is.True(ok)
	is.Equal(*e, sandbox.CeilingError{Org: "acme", Class: "exec", Live: 16, Ceiling: 16})
}

// TestInterpreterErrors has what only the code interpreter can say arrive as
// itself.
func TestInterpreterErrors(t *testing.T) {
	m := newMemory(t)
	for _, c := range []struct {
		why    error
		status int
		code   string
	}{
		{&exec.ToolchainError{Language: "rs", Program: "rustc"}, 501, "toolchain_missing"},
		{&sandbox.Error{Op: "lease", Err: &sandbox.CeilingError{Org: "acme", Class: "exec", Live: 16, Ceiling: 16}}, 429, "too_many_sandboxes"},
		{&sandbox.Error{Op: "lease", Err: errors.New("mount /srv/x")}, 503, "start_failed"},
	} {
		is := is.New(t)
		sandboxes := func(o sandbox.Owner) server.Sandboxes { return stuck{m.For(o).(*view), c.why} }
		it, err := exec.New(sandboxes(sandbox.Owner{}), exec.Config{})
		is.NoErr(err)
		d := newDesk(t, server.Config{Interpreter: server.Interpret(it, sandboxes)})
		var p struct{ Code, Detail string }
		is.Equal(d.post("/v1/exec", `{"lang":"py","code":"print(1)"}`, &p), c.status)
		is.Equal(p.Code, c.code)
		is.True(!strings.Contains(p.Detail, "/srv"))
	}
}

// TestNothingSecretIsLogged looks for keys and bodies in a log of everything.
func TestNothingSecretIsLogged(t *testing.T) {
	is := is.New(t)
	var log bytes.Buffer
	m, keys := newMemory(t), keyring{}
	broken := func(o sandbox.Owner) server.Sandboxes { return stuck{m.For(o).(*view), errors.New("out of order")} }
	h, err := server.New(server.Config{
		Sandboxes: broken, Keys: keys, Interpreter: shell{m: m}, ServiceKey: theServiceKey,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 10})),
	})
	is.NoErr(err)
	key := keys.add("acme", "ada", false)
	for _, r := range routes(t) {
		for _, header := range []http.Header{{"Authorization": {"Bearer " + key}}, {"X-Api-Key": {theServiceKey}}, {"Authorization": {"Bearer sk-some-bad-credential"}}} {
			body := `{"id":"` + never + `","argv":["secret-in-body"],"lang":"bash","code":"secret-in-body","env":["A=secret-in-body"]}`
			req := httptest.NewRequest(r.method, fill.Replace(fill.Replace(r.path)), strings.NewReader(body))
			req.Header = header
			req.Header.Set("Content-Type", "application/json")
			h.ServeHTTP(httptest.NewRecorder(), req)
		}
	}
	is.True(strings.Contains(log.String(), "out of order")) // there is a log
	for _, secret := range []string{key, theServiceKey, "sk-some-bad-credential", "secret-in-body"} {
		is.True(!strings.Contains(log.String(), secret))
	}
}
