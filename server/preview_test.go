package server_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

//go:embed testdata/app.py
var app string

// serveInside runs the application on a port of a sandbox, until the test ends.
func serveInside(t testing.TB, sb *sandbox.Sandbox, port int) {
	t.Helper()
	if err := sb.Command("python3", "--version").Run(t.Context()); err != nil {
		runtimetest.Lacks(t, "this machine has no python3 to listen with: ", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	cmd := sb.Command("python3", "-c", app, fmt.Sprint(port))
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = in, &stderr
	ended := make(chan error, 1)
	go func() {
		err := cmd.Run(ctx)
		in.CloseWithError(fmt.Errorf("%w: %s", err, stderr.String()))
		ended <- err
	}()
	t.Cleanup(func() { stop(); out.Close(); <-ended })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

// A showing is a preview of the application, as a browser sees it.
type showing struct {
	*desk
	sandboxes func(sandbox.Owner) server.Sandboxes
	sb        *sandbox.Sandbox
	base      string // scheme and host
	origin    string
	client    *http.Client
}

func newShowing(t *testing.T, cfg server.Config, body string) *showing {
	t.Helper()
	rt := runtimetest.New(t, sandbox.Config{})
	cfg.Sandboxes = server.Runtime(rt)
	p := &showing{desk: newDesk(t, cfg), sandboxes: cfg.Sandboxes}
	if body != "" {
		var out struct{ ID string }
		p.post("/v1/sandbox", body, &out)
		p.id = out.ID
	}
	p.sb = sandbox.Handle(rt, p.id)
	serveInside(t, p.sb, 8000)
	p.client = p.browser()
	return p
}

// browser is one without cookies, which finds every host here.
func (d *desk) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	here := strings.TrimPrefix(d.url, "http://")
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, here)
	}}
	d.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// link mints one.
func (d *desk) link(port int) string {
	d.t.Helper()
	var out struct {
		URL, Host string
		Port      int
		ExpiresIn int
	}
	d.post("/v1/sandbox/"+d.id+"/preview", fmt.Sprintf(`{"port":%d}`, port), &out)
	if out.Port != port || out.ExpiresIn != 30 || !strings.Contains(out.URL, "://"+out.Host+"/") {
		d.t.Fatalf("%+v", out)
	}
	return out.URL
}

// enter opens a link, and returns the cookie.
func (p *showing) enter() string {
	p.t.Helper()
	link := p.link(8000)
	u, err := url.Parse(link)
	if err != nil {
		p.t.Fatal(err)
	}
	p.base, p.origin = strings.TrimSuffix(strings.Split(link, "?")[0], "/"), u.Scheme+"://"+u.Host
	resp := p.get(link, nil)
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != u.Path || resp.Header.Get("Cache-Control") != "no-store" {
		p.t.Fatal(resp.Status, resp.Header)
	}
	return resp.Header.Get("Set-Cookie")
}

func (p *showing) do(method, address string, header http.Header, body io.Reader) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, address, body)
	if err != nil {
		p.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (p *showing) get(address string, header http.Header) *http.Response {
	p.t.Helper()
	return p.do(http.MethodGet, address, header, nil)
}

// told is what the application was sent.
type told struct {
	Method, Target string
	Headers        [][2]string
}

func (t *told) get(name string) []string {
	var list []string
	for _, h := range t.Headers {
		if h[0] == name {
			list = append(list, h[1])
		}
	}
	return list
}

func (p *showing) told(resp *http.Response) told {
	p.t.Helper()
	var out told
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatal(resp.Status, err)
	}
	return out
}

func TestPreview(t *testing.T) {
	is := is.New(t)
	p := newShowing(t, server.Config{}, "")
	cookie := p.enter()
	is.True(strings.Contains(cookie, "; Path=/;") && strings.Contains(cookie, "Max-Age=43200") && strings.Contains(cookie, "HttpOnly") && strings.Contains(cookie, "SameSite=Lax"))
	is.True(!strings.Contains(cookie, "Domain"))
	page, err := io.ReadAll(p.get(p.base+"/", nil).Body)
	is.NoErr(err)
	is.True(strings.Contains(string(page), "<h1>app</h1>"))

	var ports struct {
		Ports []struct {
			Port int
			Host string
		}
	}
	is.NoErr(json.NewDecoder(p.send(t.Context(), http.MethodGet, "/v1/sandbox/"+p.id+"/ports", "").Body).Decode(&ports))
	is.Equal(len(ports.Ports), 1) // it listens on loopback alone
	is.Equal("http://"+ports.Ports[0].Host, p.origin)

	// What was asked arrives as it was sent.
	for _, target := range []string{"/x?a=1&a=2&x=%2F", "/a%2Fb/..data/x.?", "/x//y?;=&%zz", "/?ticket=theirs&b", "/t/?ticket=" + strings.Repeat("A", 43)} {
		is.Equal(p.told(p.get(p.base+target, nil)).Target, target)
	}
	is.Equal(p.get(p.base+"/away?https://elsewhere.example/x?y=%2F", nil).Header.Get("Location"), "https://elsewhere.example/x?y=%2F")
	is.Equal(p.get(p.base+"/away?/x", nil).Header.Get("Location"), "/x")
	resp := p.do(http.MethodHead, p.base+"/x", nil, nil)
	is.True(resp.StatusCode == http.StatusOK && resp.ContentLength > 0)

	body := make([]byte, 32<<20)
	sum := sha256.Sum256(body)
	got, err := io.ReadAll(p.do(http.MethodPost, p.base+"/upload", http.Header{"Origin": {p.origin}}, strings.NewReader(string(body))).Body)
	is.NoErr(err)
	is.Equal(string(got), fmt.Sprintf("%x", sum))

	// A second look at the link is none, but for who has the cookie.
	link := p.link(8000)
	is.Equal(p.get(link, nil).StatusCode, 303)
	is.Equal(p.get(link, nil).StatusCode, 303)
	p.client = p.browser()
	is.Equal(p.get(link, nil).StatusCode, 401)
	is.Equal(p.get(p.base+"/", nil).StatusCode, 401)
}

// TestPreviewHeaders has the application be told the truth, and no secrets.
func TestPreviewHeaders(t *testing.T) {
	is := is.New(t)
	p := newShowing(t, server.Config{ServiceKey: "the-service-key"}, "")
	cookie, _, _ := strings.Cut(p.enter(), ";")
	host := strings.TrimPrefix(p.origin, "http://")
	p.client.Jar = nil
	got := p.told(p.get(p.base+"/x", http.Header{
		"Cookie":            {"a=1; " + cookie + "; b=\"2; 3\"", "__Host-sandbox-preview=x; c"},
		"Authorization":     {"Bearer " + p.key},
		"X-Authorization":   {"Bearer " + p.key},
		"X-Api-Key":         {"the-service-key"},
		"X-Forwarded-Host":  {"evil.example"},
		"X-Forwarded-For":   {"10.1.2.3"},
		"X-Forwarded-Proto": {"gopher"},
		"X-Forwarded-Port":  {"1"},
		"X-Real-Ip":         {"10.1.2.3"},
		"Forwarded":         {"for=10.1.2.3"},
	}))
	is.Equal(got.get("host"), []string{host})
	is.Equal(got.get("x-forwarded-host"), []string{host})
	is.Equal(got.get("x-forwarded-proto"), []string{"http"})
	is.Equal(got.get("x-forwarded-for"), []string{"127.0.0.1"})
	is.Equal(got.get("cookie"), []string{`a=1; b="2; 3"`, "c"})
	for _, h := range got.Headers {
		for _, secret := range []string{p.key, "the-service-key", "10.1.2.3", cookie, "evil"} {
			is.True(!strings.Contains(h[1], secret)) // the application is told nothing of ours
		}
	}
	own := p.told(p.get(p.base+"/x", http.Header{"Cookie": {cookie}, "Authorization": {"Basic eDp5"}, "X-Api-Key": {"own"}}))
	is.Equal(own.get("authorization"), []string{"Basic eDp5"})
	is.Equal(own.get("x-api-key"), []string{"own"})
	is.Equal(len(own.get("cookie")), 0)

	set := p.get(p.base+"/cookies", http.Header{"Cookie": {cookie}}).Header
	is.Equal(set["Set-Cookie"], []string{"own=1; Path=/; HttpOnly", "wide=1", "wide2=1;Path=/x"})
	is.Equal(set["Clear-Site-Data"], []string{`"cache", "storage"`})
}

// TestPreviewOrigins has no page of another site use the cookie, whether it
// asks for a socket or not.
func TestPreviewOrigins(t *testing.T) {
	p := newShowing(t, server.Config{}, "")
	cookie, _, _ := strings.Cut(p.enter(), ";")
	p.client.Jar = nil
	other := strings.Replace(p.origin, p.id, strings.Repeat("x", 21), 1)
	for _, c := range []struct {
		what   string
		header http.Header
		ok     bool
	}{
		{"no browser", http.Header{}, true},
		{"itself", http.Header{"Origin": {p.origin}, "Sec-Fetch-Site": {"same-origin"}}, true},
		{"itself, without its origin", http.Header{"Sec-Fetch-Site": {"same-origin"}}, true},
		{"the address bar", http.Header{"Sec-Fetch-Site": {"none"}, "Sec-Fetch-Mode": {"navigate"}}, true},
		{"a link elsewhere", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, true},
		{"a foreign page", http.Header{"Origin": {"https://evil.example"}}, false},
		{"a foreign page without its origin", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}, false},
		{"another preview", http.Header{"Origin": {other}, "Sec-Fetch-Site": {"same-site"}}, false},
		{"another preview's picture", http.Header{"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"no-cors"}}, false},
		{"the API's own page", http.Header{"Origin": {p.url}}, false},
		{"another scheme", http.Header{"Origin": {strings.Replace(p.origin, "http:", "https:", 1)}}, false},
		{"nowhere", http.Header{"Origin": {"null"}}, false},
		{"its form, without referrers", http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"navigate"}}, true},
		{"a frame of no origin", http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, false},
		{"two origins", http.Header{"Origin": {p.origin, "https://evil.example"}}, false},
	} {
		for _, upgrade := range []bool{false, true} {
			header := c.header.Clone()
			header.Set("Cookie", cookie)
			want := http.StatusForbidden
			if c.ok {
				want = http.StatusOK
			}
			path := "/x"
			if upgrade {
				path = "/socket"
				header.Set("Connection", "Upgrade")
				header.Set("Upgrade", "websocket")
				header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
				header.Set("Sec-WebSocket-Version", "13")
				if c.ok {
					want = http.StatusSwitchingProtocols
				}
			}
			resp := p.get(p.base+path, header)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s, socket %v: %d", c.what, upgrade, resp.StatusCode)
			}
		}
	}
}

func (p *showing) socket() *websocket.Conn {
	p.t.Helper()
	ws, _, err := websocket.Dial(p.t.Context(), p.base+"/socket", &websocket.DialOptions{HTTPClient: p.client, HTTPHeader: http.Header{"Origin": {p.origin}}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { ws.CloseNow() })
	return ws
}

func TestPreviewStreams(t *testing.T) {
	is := is.New(t)
	p := newShowing(t, server.Config{}, "")
	p.enter()
	ws := p.socket()
	_, b, err := ws.Read(t.Context())
	is.NoErr(err)
	is.Equal("http://"+string(b), p.origin) // the host is the same as of any request
	for range 3 {
		is.NoErr(ws.Write(t.Context(), websocket.MessageText, []byte("hé")))
		_, b, err = ws.Read(t.Context())
		is.NoErr(err)
		is.Equal(string(b), "echo hé")
	}
	events := bufio.NewReader(p.get(p.base+"/events", nil).Body)
	var late []time.Duration
	for n := range 20 {
		line, err := events.ReadString('\n')
		is.NoErr(err)
		now := time.Now()
		var got int
		var at float64
		_, err = fmt.Sscanf(line, "data: %d %f", &got, &at)
		is.NoErr(err)
		is.Equal(got, n)
		late = append(late, now.Sub(time.UnixMicro(int64(at*1e6))))
		_, err = events.ReadString('\n')
		is.NoErr(err)
	}
	slices.Sort(late)
	t.Logf("an event takes %v", late[len(late)/2])
	is.True(late[len(late)/2] < 50*time.Millisecond)
}

// TestPreviewEnds has a preview be of one run of a sandbox.
func TestPreviewEnds(t *testing.T) {
	is := is.New(t)
	p := newShowing(t, server.Config{}, `{"disk":true}`)
	late := p.link(8000)
	p.enter()
	ws := p.socket()
	_, _, err := ws.Read(t.Context())
	is.NoErr(err)
	is.Equal(p.get(p.base+"/x", nil).StatusCode, 200)
	is.Equal(p.send(t.Context(), http.MethodPost, "/v1/sandbox/"+p.id+"/pause", "").StatusCode, 200)
	_, _, err = ws.Read(t.Context())
	is.True(err != nil) // the socket ends
	is.Equal(p.get(p.base+"/x", nil).StatusCode, 401)
	is.Equal(p.get(late, nil).StatusCode, 401)
	is.Equal(p.send(t.Context(), http.MethodPost, "/v1/sandbox/"+p.id+"/resume", "").StatusCode, 200)
	is.Equal(p.get(p.base+"/x", nil).StatusCode, 401)
	p.enter()
	resp := p.get(p.base+"/x", http.Header{"Accept": {"text/html"}})
	is.Equal(resp.StatusCode, 502) // nothing listens any more
	is.Equal(resp.Header.Get("Content-Type"), "text/html; charset=utf-8")
	is.Equal(p.get(p.base+"/x", nil).Header.Get("Content-Type"), "application/problem+json")
	serveInside(t, p.sb, 8000)
	is.Equal(p.get(p.base+"/x", nil).StatusCode, 200)
	p.keys.revoke(p.key, time.Now())
	is.Equal(p.get(p.base+"/x", nil).StatusCode, 401) // what a key opened goes with it
	p.keys.revoke(p.key, time.Time{})
	is.Equal(p.get(p.base+"/x", nil).StatusCode, 200)
	is.Equal(p.send(t.Context(), http.MethodDelete, "/v1/sandbox/"+p.id, "").StatusCode, 204)
	is.Equal(p.get(p.base+"/x", nil).StatusCode, 401)
}

// TestPreviewNames has nothing but previews be where they are.
func TestPreviewNames(t *testing.T) {
	is := is.New(t)
	p := newShowing(t, server.Config{}, "")
	cookie, _, _ := strings.Cut(p.enter(), ";")
	label := strings.Split(strings.TrimPrefix(p.origin, "http://"), ".")[0]
	at := strings.TrimPrefix(p.origin, "http://"+label)
	p.client.Jar = nil
	for name, want := range map[string]int{
		label: 200, strings.ToUpper(label): 200,
		"sandbox-" + p.id + "-preview-8001":                    401, // another port's cookie
		"sandbox-" + strings.Repeat("x", 21) + "-preview-8000": 401,
		"sandbox-" + p.id + "-preview-0":                       404,
		"sandbox-" + p.id + "-preview-65536":                   404,
		"sandbox-" + p.id + "-preview-08000":                   404,
		"sandbox-" + p.id + "-preview-99999":                   404,
		"sandbox-" + p.id + "-preview-80x":                     404,
		"sandbox-" + p.id[1:] + "-preview-8000":                404,
		"x." + label:                                           404,
		"sandbox":                                              404,
	} {
		is.Equal(name+fmt.Sprint(p.get("http://"+name+at+"/x", http.Header{"Cookie": {cookie}}).StatusCode), name+fmt.Sprint(want))
	}
	is.Equal(p.get("http://"+label+at+"/v1/sandbox", http.Header{"Cookie": {cookie}}).StatusCode, 200) // the application's, too
	link := p.link(8000)
	is.Equal(p.get(strings.Replace(link, "-8000", "-8001", 1), nil).StatusCode, 401) // another port's link
	is.Equal(p.get(link, nil).StatusCode, 401)                                       // which spent it
	for _, port := range []string{"0", "65536", "-1", "null", `"80"`} {
		is.Equal(p.send(t.Context(), http.MethodPost, "/v1/sandbox/"+p.id+"/preview", `{"port":`+port+`}`).StatusCode, 400)
	}
}

// TestPreviewPaths has previews be below one host that has nothing else.
func TestPreviewPaths(t *testing.T) {
	is := is.New(t)
	p := newShowing(t, server.Config{Previews: "http://previews.example"}, "")
	cookie := p.enter()
	is.True(strings.Contains(cookie, "Path=/sandbox-"+p.id+"-preview-8000/"))
	got := p.told(p.get(p.base+"/x%2Fy?z", nil))
	is.Equal(got.Target, "/x%2Fy?z")
	is.Equal(got.get("x-forwarded-prefix"), []string{strings.TrimPrefix(p.base, p.origin)})
	is.Equal(got.get("cookie"), nil)
	is.Equal(p.get(p.base+"/away?/x", nil).Header.Get("Location"), strings.TrimPrefix(p.base, p.origin)+"/x")
	is.True(slices.Contains(p.get(p.base+"/cookies", nil).Header["Set-Cookie"], "own=1; Path="+strings.TrimPrefix(p.base, p.origin)+"/; HttpOnly"))
	is.Equal(p.get(p.base, nil).StatusCode, 308)
	is.Equal(p.get(p.origin+"/v1/sandbox", nil).StatusCode, 404)
	is.Equal(p.get(p.origin+"/", nil).StatusCode, 404)
	is.Equal(p.get(p.url+strings.TrimPrefix(p.base, p.origin)+"/x", nil).StatusCode, 404) // and they are nowhere else
}

// TestPreviewByTLS has what browsers keep best, where they do.
func TestPreviewByTLS(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{Sandboxes: server.Runtime(runtimetest.New(t, sandbox.Config{})), Previews: "https://*.previews.example"})
	link := d.link(8000)
	is.True(strings.HasPrefix(link, "https://sandbox-"+d.id+"-preview-8000.previews.example/?ticket="))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(link, "https:", "http:", 1), nil)
	is.NoErr(err)
	resp, err := d.browser().Do(req)
	is.NoErr(err)
	resp.Body.Close()
	cookie := resp.Header.Get("Set-Cookie")
	is.True(strings.HasPrefix(cookie, "__Host-"))
	for _, attribute := range []string{"Secure", "HttpOnly", "Partitioned", "SameSite=None", "Path=/"} {
		is.True(strings.Contains(cookie, "; "+attribute))
	}
}

// TestPreviewSlowReaders has many downloads that nobody hurries to take.
func TestPreviewSlowReaders(t *testing.T) {
	is := is.New(t)
	p := newShowing(t, server.Config{}, "")
	p.enter()
	const readers, size = 200, 2 << 20
	var wg sync.WaitGroup
	errs := make([]error, readers)
	var begun sync.WaitGroup
	begun.Add(readers)
	for i := range readers {
		wg.Go(func() {
			ready := sync.OnceFunc(begun.Done)
			defer ready()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s/large?%d", p.base, size), nil)
			if err != nil {
				errs[i] = err
				return
			}
			resp, err := p.client.Do(req)
			if err != nil {
				errs[i] = err
				return
			}
			defer resp.Body.Close()
			ready()
			begun.Wait() // until all have begun, none takes more than comes by itself
			n, err := io.Copy(io.Discard, resp.Body)
			if err == nil && n != size {
				err = fmt.Errorf("%d bytes", n)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for _, err := range errs {
		is.NoErr(err)
	}
}
