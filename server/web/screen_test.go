package web_test

import (
	"image"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/imagetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// desktops has the class desktop be of the recipe's image.
func desktops(t *testing.T) sandbox.Config {
	t.Helper()
	return sandbox.Config{Images: imagetest.Built(t, "desktop"), Classes: []sandbox.Class{
		{Name: sandbox.ClassDesktop, TTL: time.Hour, Workdir: "/work", Screen: true, Image: "desktop"},
	}}
}

// differ counts the points of a part of two pictures that are not the same.
func differ(a, b image.Image, part image.Rectangle) int {
	n := 0
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			ar, ag, ab, _ := a.At(x, y).RGBA()
			br, bg, bb, _ := b.At(x, y).RGBA()
			if ar>>8 != br>>8 || ag>>8 != bg>>8 || ab>>8 != bb>>8 {
				n++
			}
		}
	}
	return n
}

// changed waits until at least so many points of a part are other than before.
func (v *visit) changed(before image.Image, part image.Rectangle, points int) image.Image {
	v.t.Helper()
	for v.ctx.Err() == nil {
		if now := v.picture("screen"); differ(before, now, part) >= points {
			return now
		}
	}
	v.t.Fatal("the screen did not change in ", part)
	return nil
}

func TestScreen(t *testing.T) {
	is := is.New(t)
	v := newVisit(t, desktops(t))
	sb := v.lease(sandbox.Spec{Class: sandbox.ClassDesktop})
	// As large as the screen, so that its points are the page's.
	v.do(chromedp.EmulateViewport(1280, 800))
	v.open(sb, "screen", "")
	v.until(`document.body.dataset.state === "connected"`)
	is.Equal(value[string](v, "location.search"), "")
	all := image.Rect(0, 0, 1280, 800)
	empty := image.NewUniform(image.Black)
	v.changed(empty, all, 1280*800/2) // it is not black
	is.NoErr(sb.Command("sh", "-c", "until xprop -root _NET_SUPPORTING_WM_CHECK | grep -q window && xwininfo -root -tree | grep -q tint2; do :; done").Run(v.ctx))
	middle := image.Rect(400, 200, 640, 400)
	for {
		r, g, b, _ := v.picture("screen").At(500, 300).RGBA()
		if [3]uint32{r >> 8, g >> 8, b >> 8} == [3]uint32{0x35, 0x50, 0x6b} {
			break
		}
		is.NoErr(v.ctx.Err())
	}
	desktop := v.picture("screen")

	// The right button opens a menu, whose first line is a terminal.
	v.do(chromedp.MouseClickXY(400, 200, chromedp.ButtonRight))
	v.changed(desktop, middle, 1000)
	v.do(chromedp.MouseClickXY(440, 210))
	is.NoErr(sb.Command("xdotool", "search", "--sync", "--onlyvisible", "--class", "xterm", "windowmove", "200", "150", "windowactivate", "--sync").Run(v.ctx))
	window := image.Rect(200, 180, 800, 500)
	open := v.changed(desktop, window, 10_000)

	// What is typed appears there, and does what it says.
	v.do(keys("echo typed > /work/typed; seq 100 120\r"))
	v.changed(open, window, 1000)
	for {
		b, err := sb.Command("cat", "/work/typed").Output(v.ctx)
		if string(b) == "typed\n" {
			break
		}
		is.NoErr(v.ctx.Err())
		_ = err // it may not be there yet
	}

	// Both have one clipboard.
	v.allow("clipboard-read", "clipboard-write")
	value[any](v, `navigator.clipboard.writeText("from the browser é")`)
	v.edit("v", chromedp.ModifierCtrl, "")
	is.NoErr(sb.Command("sh", "-c", "until [ \"$(xclip -selection clipboard -o)\" = 'from the browser é' ]; do :; done").Run(v.ctx))
	is.NoErr(sb.Command("sh", "-c", "printf 'from the sandbox é' | xclip -selection clipboard >/dev/null 2>&1").Run(v.ctx))
	for value[string](v, "navigator.clipboard.readText()") != "from the sandbox é" {
		is.NoErr(v.ctx.Err())
	}

	// A page of another size shows all of it.
	v.do(chromedp.EmulateViewport(640, 400))
	v.until(`document.querySelector("canvas").getBoundingClientRect().width <= 640`)
	v.changed(empty, image.Rect(0, 0, 640, 400), 640*400/2)
}

// TestNoScreen has a page say that there is none.
func TestNoScreen(t *testing.T) {
	v := newVisit(t, sandbox.Config{})
	v.open(v.lease(sandbox.Spec{}), "screen", "")
	v.until(`document.getElementById("status").textContent.includes("Connection refused")`)
}
