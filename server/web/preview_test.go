package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// serve runs the application of the server's own tests on port 8000, until the
// test ends.
func serve(t *testing.T, sb *sandbox.Sandbox) {
	t.Helper()
	if err := sb.Command("python3", "--version").Run(t.Context()); err != nil {
		runtimetest.Lacks(t, "this machine has no python3 to listen with: ", err)
	}
	app, err := os.ReadFile("../testdata/app.py")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	cmd := sb.Command("python3", "-c", string(app), "8000")
	cmd.Stdout = in
	ended := make(chan error, 1)
	go func() {
		err := cmd.Run(ctx)
		in.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() { stop(); out.Close(); <-ended })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

// TestPreview has an application work in the browser as if it were anywhere
// else, and be out of reach of every other page.
func TestPreview(t *testing.T) {
	is := is.New(t)
	v := newVisit(t, sandbox.Config{})
	sb := v.lease(sandbox.Spec{})
	serve(t, sb)
	v.do(chromedp.Navigate(v.post("/v1/sandbox/"+sb.ID()+"/preview", `{"port":8000}`, "url")))
	origin := value[string](v, "location.origin")
	is.True(strings.Contains(origin, "://sandbox-"+sb.ID()+"-preview-8000.localhost:"))
	is.Equal(value[string](v, "location.pathname + location.search"), "/")
	v.until(`document.getElementById("ws").textContent === "echo hello"`)
	v.until(`Number.parseInt(document.getElementById("sse").textContent) > 3`)
	is.Equal(value[string](v, "document.cookie"), "") // ours is not for scripts
	is.Equal(value[string](v, `fetch("/x", { method: "POST", body: "x" }).then((r) => r.json()).then((r) => r.method)`), "POST")
	// It has no way to the API, whose pages are of another origin.
	api := value[string](v, fmt.Sprintf(`fetch("%s/v1/sandbox", { headers: { Authorization: "Bearer x" } }).then((r) => "answered", (e) => "refused")`, v.url))
	is.Equal(api, "refused")

	// Another site's page has the browser's cookie sent to no avail.
	v.do(chromedp.Navigate(v.url + "/livez"))
	for name, script := range map[string]string{
		"fetch":   `fetch("%s/x", { credentials: "include" }).then(() => "answered", () => "refused")`,
		"no-cors": `fetch("%s/x", { credentials: "include", mode: "no-cors" }).then(() => "opaque", () => "refused")`,
		"post":    `fetch("%s/x", { method: "POST", credentials: "include", mode: "no-cors" }).then(() => "opaque", () => "refused")`,
		"socket":  `new Promise((done) => { const s = new WebSocket("%s/socket"); s.onopen = () => done("answered"); s.onerror = () => done("refused"); })`,
		"picture": `new Promise((done) => { const i = new Image(); i.onload = () => done("answered"); i.onerror = () => done("refused"); i.src = "%s/x"; })`,
	} {
		got := value[string](v, fmt.Sprintf(script, origin))
		if got != "refused" && got != "opaque" {
			t.Errorf("%s: %s", name, got)
		}
	}
	v.do(chromedp.Navigate(origin + "/x"))
	// A person may go there.
	if text := value[string](v, "document.body.innerText"); !strings.Contains(text, `"target": "/x"`) {
		t.Error(text)
	}
}
