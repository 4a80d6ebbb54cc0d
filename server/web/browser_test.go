package web_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
	"github.com/hanzoai/sandbox/server/web"
)

// A visit is a browser at a server with sandboxes of the real engine.
type visit struct {
	t     *testing.T
	tab   context.Context //nolint:containedctx // chromedp keeps a tab in one
	ctx   context.Context //nolint:containedctx // the same, for so long
	rt    *sandbox.Runtime
	url   string
	key   string
	owner sandbox.Owner
}

type oneKey struct {
	hash [sha256.Size]byte
	key  server.Key
}

func (k oneKey) Key(_ context.Context, hash [sha256.Size]byte) (server.Key, error) {
	if hash != k.hash {
		return server.Key{}, server.ErrNoKey
	}
	return k.key, nil
}

// patience bounds a test. The machine may be busy.
const patience = 3 * time.Minute

func newVisit(t *testing.T, cfg sandbox.Config) *visit {
	t.Helper()
	if !web.Has("terminal") || !web.Has("screen") {
		runtimetest.Lacks(t, "the pages' modules are not there: go run ./server/web/fetch")
	}
	v := &visit{t: t, rt: runtimetest.New(t, cfg), key: server.NewKey(), owner: sandbox.Owner{Org: "acme", Actor: "ada"}}
	h, err := server.New(server.Config{
		Sandboxes: server.Runtime(v.rt), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Keys: oneKey{server.HashKey(v.key), server.Key{ID: "one", Org: v.owner.Org, User: v.owner.Actor}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	v.url = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	v.browse()
	return v
}

// browse opens a browser.
func (v *visit) browse() {
	t := v.t
	program, err := osexec.LookPath("chromium")
	if err != nil {
		runtimetest.Lacks(t, err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1100, 700), chromedp.UserDataDir(t.TempDir()))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, _ = chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf), chromedp.WithListener(func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			t.Errorf("the page failed: %+v", e.ExceptionDetails)
		}
	}))
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Log(err)
		}
	})
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1100, 700)); err != nil {
		t.Fatal(err)
	}
	v.tab = ctx
	v.extend(0)
}

// extend has the test go on for longer.
func (v *visit) extend(by time.Duration) {
	ctx, cancel := context.WithTimeout(v.tab, patience+by)
	v.ctx = ctx
	v.t.Cleanup(cancel)
}

// A step is something that a person does.
type step = chromedp.Action[chromedp.Void]

func (v *visit) do(steps ...step) {
	v.t.Helper()
	if err := chromedp.Do(v.ctx, steps...); err != nil {
		v.picture("failed")
		v.t.Fatal(err)
	}
}

// keys types as a person does: each key goes down, with the character that it
// stands for, and up. What is on no key is put in.
func keys(text string) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, r := range text {
			events := kb.Encode(r)
			down, up := events[0], events[len(events)-1]
			var err error
			if down.Key == "Unidentified" {
				_, err = cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: string(r)})
			} else {
				if len(events) > 2 {
					down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
				}
				if _, err = cdp.Call(ctx, t, input.DispatchKeyEvent, *down); err == nil {
					_, err = cdp.Call(ctx, t, input.DispatchKeyEvent, *up)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// edit presses a key together with others, and does what they stand for.
func (v *visit) edit(key string, with chromedp.Modifier, command string) {
	v.t.Helper()
	var commands []string
	if command != "" {
		commands = append(commands, command)
	}
	v.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
			_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{
				Type: kind, Key: key, Code: "Key" + strings.ToUpper(key), Modifiers: int64(with), Commands: commands,
				WindowsVirtualKeyCode: int64(strings.ToUpper(key)[0]),
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// allow lets pages have the clipboard.
func (v *visit) allow(names ...string) {
	v.t.Helper()
	v.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, name := range names {
			_, err := cdp.Call(ctx, t, browser.SetPermission, browser.SetPermissionParams{
				Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// until waits until an expression of JavaScript is true.
func (v *visit) until(expression string) {
	v.t.Helper()
	_, err := chromedp.Run(v.ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(time.Minute)))
	if err != nil {
		v.picture("failed")
		page, _ := chromedp.Run(v.ctx, chromedp.Evaluate[string]("document.documentElement.innerText + [...document.querySelectorAll('iframe')].map((f) => f.contentDocument?.body?.innerText)"))
		v.t.Fatalf("%s: %v\n%s", expression, err, page)
	}
}

func value[T any](v *visit, expression string) T {
	v.t.Helper()
	out, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](expression, func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	if err != nil {
		v.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// picture takes one of the page, and keeps it where SANDBOX_PICTURES says.
func (v *visit) picture(name string) image.Image {
	v.t.Helper()
	b, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		v.t.Log(err)
		return nil
	}
	if dir := os.Getenv("SANDBOX_PICTURES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), b, 0o644); err != nil {
			v.t.Error(err)
		}
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		v.t.Fatal(err)
	}
	return img
}

func (v *visit) lease(spec sandbox.Spec) *sandbox.Sandbox {
	v.t.Helper()
	sb, err := v.rt.For(v.owner).Lease(v.ctx, spec)
	if err != nil {
		v.t.Fatal(err)
	}
	return sb
}

// post calls the API and returns a field of the answer.
func (v *visit) post(path, body, field string) string {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.ctx, http.MethodPost, v.url+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+v.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode >= 300 {
		v.t.Fatal(path, resp.Status, err, out)
	}
	return fmt.Sprint(out[field])
}

// open opens the page of a terminal or a screen.
func (v *visit) open(sb *sandbox.Sandbox, door, more string) {
	v.t.Helper()
	v.do(chromedp.Navigate(v.url + v.post("/v1/sandbox/"+sb.ID()+"/"+door+"/ticket", "", "url") + more))
}
