package web_test

import (
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// settled is a page that has been drawn.
const settled = `new Promise((done) => setTimeout(() => done(true), 4000))`

// TestPictures takes those of the README, into the folder that
// SANDBOX_PICTURES names.
func TestPictures(t *testing.T) {
	if os.Getenv("SANDBOX_PICTURES") == "" {
		t.Skip("no SANDBOX_PICTURES")
	}
	is := is.New(t)
	v := newVisit(t, desktops(t))
	v.extend(5 * time.Minute) // a browser in the sandbox of a busy machine takes its time
	sb := v.lease(sandbox.Spec{})
	v.do(chromedp.EmulateViewport(960, 540))
	v.open(sb, "terminal", "&arg=main")
	v.until(shown("document") + `?.match(/[$%]/)`)
	v.do(keys("PS1='\\[\\e[32m\\]sandbox\\[\\e[0m\\]:\\w$ '; clear\runame -srm; id; ls -l --color=always /\r"))
	v.until(shown("document") + `?.includes(" var")`)
	v.picture("terminal")

	desk := v.lease(sandbox.Spec{Class: sandbox.ClassDesktop, Project: "demo"})
	is.NoErr(desk.Command("sh", "-c", `printf '<!doctype html><meta charset=utf-8><title>Hello</title><body style="font:20px sans-serif;margin:3em"><h1>Hello from inside</h1><p>This browser runs in the sandbox. 漢字 😀'>page.html; until xset q >/dev/null 2>&1; do :; done`).Run(v.ctx))
	browser := desk.Command("chromium", "--user-data-dir=/tmp/profile", "--window-position=420,90", "--window-size=780,520", "file:///work/page.html")
	xterm := desk.Command("xterm", "-fa", "Monospace", "-fs", "11", "-geometry", "70x20+40+260")
	ended := make(chan error, 2)
	go func() { ended <- browser.Run(v.ctx) }()
	go func() { ended <- xterm.Run(v.ctx) }()
	is.NoErr(desk.Command("sh", "-c", "until xdotool search --sync --onlyvisible --name Hello >/dev/null 2>&1; do :; done").Run(v.ctx))
	v.do(chromedp.EmulateViewport(1280, 720), chromedp.Navigate(v.url+"/"), chromedp.Click("#key"), keys(v.key+"\r"))
	v.until(`document.querySelectorAll("#rows li").length === 2`)
	v.do(chromedp.Click(`#rows li:first-child button`))
	v.until(inFrame + `?.body?.dataset.state === "connected"`)
	value[bool](v, settled)
	v.picture("console")
	v.do(chromedp.EmulateViewport(1280, 800))
	v.open(desk, "screen", "")
	v.until(`document.body.dataset.state === "connected"`)
	value[bool](v, settled)
	v.picture("desktop")
	is.NoErr(desk.End(v.ctx))
	<-ended
	<-ended
}
