package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/server"
)

// TestPages has pages be the same for everybody, and let nothing in.
func TestPages(t *testing.T) {
	is := is.New(t)
	s := start(t, server.Config{Sandboxes: newMemory(t).For, Keys: keyring{}, Frames: []string{"https://app.example", "https://*.app.example"}})
	get := func(path string, want int) (http.Header, string) {
		t.Helper()
		resp, err := http.Get(s.URL + path)
		is.NoErr(err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		is.NoErr(err)
		is.Equal(resp.StatusCode, want)
		return resp.Header, string(b)
	}
	const id = "xxxxxxxxxxxxxxxxxxxxx"
	for _, door := range []string{"terminal", "screen"} {
		h, with := get("/v1/sandbox/"+id+"/"+door+"?ticket=x", 200)
		_, without := get("/v1/sandbox/other/"+door, 200)
		is.Equal(with, without)
		is.Equal(h.Get("Content-Type"), "text/html; charset=utf-8")
		is.Equal(h.Get("Cache-Control"), "no-store")
		is.Equal(h.Get("Referrer-Policy"), "no-referrer")
		is.Equal(h.Get("X-Content-Type-Options"), "nosniff")
		policy := h.Get("Content-Security-Policy")
		is.True(strings.HasSuffix(policy, "frame-ancestors 'self' https://app.example https://*.app.example"))
		is.True(strings.Contains(policy, "default-src 'none'; script-src 'self';"))
	}
	h, _ := get("/", 200)
	is.True(strings.HasSuffix(h.Get("Content-Security-Policy"), "frame-ancestors 'none'"))
	h, _ = get("/web/static/console.js", 200)
	is.Equal(h.Get("Content-Type"), "text/javascript; charset=utf-8")
	for _, path := range []string{"/web/static/console.html", "/web/modules/README", "/web/static/", "/web/", "/web/web.go", "/web/static/%2e%2e/web.go", "/web/static/none.js"} {
		get(path, 404)
	}
	for _, c := range []server.Config{
		{Previews: "https://*.x.example/path"},
		{Previews: "x.example"},
		{Previews: "ftp://*.x.example"},
		{Previews: "https://a.*.x.example"},
		{Previews: "https://*."},
		{Frames: []string{"https://x.example; script-src *"}},
		{Frames: []string{"*"}},
		{Frames: []string{"javascript:"}},
	} {
		c.Sandboxes = newMemory(t).For
		_, err := server.New(c)
		is.True(err != nil)
	}
}
