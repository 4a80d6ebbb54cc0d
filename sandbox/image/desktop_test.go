package image_test

import (
	"bytes"
	"image/png"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/imagetest"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// desktop starts what a desktop is made of, one when the other is ready, and
// ends when the browser has a page, whose title becomes its window's.
const desktop = `
set -e
export XDG_RUNTIME_DIR=/tmp/xdg
mkdir -p -m 0700 $XDG_RUNTIME_DIR
mkfifo x wm
Xtigervnc -displayfd 3 -geometry 1024x768 -SecurityTypes None -rfbport -1 -rfbunixpath /tmp/rfb.sock 3>x >x.log 2>&1 &
read -r number <x
export DISPLAY=:$number
echo X server
openbox --startup 'sh -c "echo ready >/mnt/data/wm"' >wm.log 2>&1 &
read -r ready <wm
echo window manager
echo '<meta charset=utf-8><title>page-is-here</title><body style="background:#20a040"><h1>é Ω 漢字 😀</h1>' >page.html
chromium --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --user-data-dir=/tmp/profile "file://$PWD/page.html" >browser.log 2>&1 &
# A window can be gone by the time that it is looked at, which ends the search.
until xdotool search --sync --name page-is-here >/dev/null 2>&1; do :; done
echo browser
`

func TestDesktop(t *testing.T) {
	is := is.New(t)
	sb := imagetest.Lease(t, sandbox.Spec{Image: "desktop", TTL: time.Hour})
	write(t, sb, "/mnt/data/desktop.sh", desktop)
	start := time.Now()
	cmd := sb.Command("bash", "desktop.sh")
	cmd.Timeout = 3 * time.Minute
	out, err := cmd.Output(runtimetest.Context(t, 4*time.Minute))
	t.Logf("%v: %s", time.Since(start).Round(time.Millisecond), out)
	is.NoErr(err)
	var b []byte
	colours, green := 0, 0
	for ctx := runtimetest.Context(t, time.Minute); green < 1000 && ctx.Err() == nil; { // until the page is drawn, too
		_, err := sb.Command("env", "DISPLAY=:0", "scrot", "-o", "shot.png").Output(ctx)
		is.NoErr(err)
		b, err = fs.ReadFile(sb.FS(ctx), "shot.png")
		is.NoErr(err)
		colours, green = look(t, b)
	}
	if dir := os.Getenv("SANDBOX_PICTURES"); dir != "" {
		is.NoErr(os.WriteFile(dir+"/desktop.png", b, 0o644))
	}
	t.Logf("%d colours, %d points of the page's", colours, green)
	is.True(colours > 16)  // not black, nor one grey
	is.True(green >= 1000) // the page is drawn
}

// look counts the colours of a picture, and the points that have the page's.
func look(t testing.TB, b []byte) (colours, green int) {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[3]uint32]bool{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, _ := picture.At(x, y).RGBA()
			c := [3]uint32{r >> 8, g >> 8, b >> 8}
			seen[c] = true
			if c == [3]uint32{0x20, 0xa0, 0x40} {
				green++
			}
		}
	}
	return len(seen), green
}
