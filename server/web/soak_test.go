package web_test

import (
	"image"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// TestScreenGoesOn has a screen be busy, and used, for a while: a few seconds,
// or minutes where SANDBOX_SOAK is set.
func TestScreenGoesOn(t *testing.T) {
	is := is.New(t)
	while := 5 * time.Second
	if os.Getenv("SANDBOX_SOAK") != "" {
		while = 3 * time.Minute
	}
	v := newVisit(t, desktops(t))
	v.extend(while)
	sb := v.lease(sandbox.Spec{Class: sandbox.ClassDesktop})
	v.do(chromedp.EmulateViewport(1280, 800))
	v.open(sb, "screen", "")
	v.until(`document.body.dataset.state === "connected"`)
	busy := sb.Command("xterm", "-geometry", "100x30+300+200", "-e", "while :; do seq 1 100000; done")
	ended := make(chan error, 1)
	go func() { ended <- busy.Run(v.ctx) }()
	is.NoErr(sb.Command("xdotool", "search", "--sync", "--onlyvisible", "--class", "xterm").Run(v.ctx))
	window := image.Rect(310, 230, 800, 500)
	rounds, half := 0, time.Now().Add(while/2)
	for begin := time.Now(); time.Since(begin) < while; rounds++ {
		before := v.picture("soak")
		for range 3 {
			v.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, rand.Float64()*1280, rand.Float64()*700))
		}
		v.changed(before, window, 100) // it goes on being drawn
		if time.Now().After(half) {
			half = begin.Add(while)
			v.open(sb, "screen", "") // another page goes on
			v.until(`document.body.dataset.state === "connected"`)
		}
	}
	t.Logf("%d times in %v", rounds, while)
	is.NoErr(sb.End(v.ctx))
	v.until(`!document.getElementById("status").hidden`)
	<-ended
}
