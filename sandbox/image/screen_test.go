package image_test

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/imagetest"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// desktopRuntime has the class desktop on the recipe's image.
func desktopRuntime(t testing.TB) *sandbox.Runtime {
	t.Helper()
	return runtimetest.New(t, sandbox.Config{Images: imagetest.Built(t, "desktop"), Classes: []sandbox.Class{
		{Name: sandbox.ClassDesktop, TTL: time.Hour, Workdir: "/work", Screen: true, Image: "desktop"},
	}})
}

// greet waits for the screen to answer, and returns what it says first.
func greet(t testing.TB, sb *sandbox.Sandbox) string {
	t.Helper()
	ctx := runtimetest.Context(t, time.Minute)
	for {
		conn, err := sb.DialContext(ctx, "tcp", "localhost:5900")
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		version := make([]byte, 12)
		if _, err := io.ReadFull(conn, version); err != nil {
			t.Fatal(err)
		}
		return string(version)
	}
}

// TestScreen has a desktop come up by itself, and again when it has failed.
func TestScreen(t *testing.T) {
	is := is.New(t)
	rt := desktopRuntime(t)
	begin := time.Now()
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Class: sandbox.ClassDesktop})
	is.NoErr(err)
	leased := time.Since(begin)
	is.Equal(greet(t, sb), "RFB 003.008\n")
	t.Logf("leased after %v, a screen after %v", leased, time.Since(begin))
	ctx := runtimetest.Context(t, time.Minute)
	is.Equal(sh(t, sb, "until xprop -root _NET_SUPPORTING_WM_CHECK | grep -q window; do :; done; xdpyinfo | grep dimensions: | cut -d' ' -f7; id -un"), "1280x800\nsandbox")
	is.NoErr(sb.Command("pkill", "-9", "Xtigervnc").Run(ctx))
	is.NoErr(sb.Command("sh", "-c", "while xset q >/dev/null 2>&1; do :; done; until xprop -root _NET_SUPPORTING_WM_CHECK 2>/dev/null | grep -q window; do :; done").Run(ctx))
	is.Equal(greet(t, sb), "RFB 003.008\n")
}

// TestScreenSurvives has a desktop go on when its Runtime goes, and be left
// alone by the next.
func TestScreenSurvives(t *testing.T) {
	is := is.New(t)
	cfg := sandbox.Config{Root: t.TempDir(), Images: imagetest.Built(t, "desktop"), Classes: []sandbox.Class{
		{Name: sandbox.ClassDesktop, TTL: time.Hour, Workdir: "/work", Screen: true, Image: "desktop"},
	}}
	first, err := runtimetest.Open(t, cfg)
	is.NoErr(err)
	sb, err := first.Lease(t.Context(), sandbox.Spec{Class: sandbox.ClassDesktop})
	is.NoErr(err)
	greet(t, sb)
	pid := sh(t, sb, "pgrep Xtigervnc")
	is.NoErr(first.Detach())
	second := runtimetest.New(t, cfg)
	sb, err = second.Attach(context.Background(), sb.ID())
	is.NoErr(err)
	greet(t, sb)
	is.Equal(sh(t, sb, "pgrep Xtigervnc"), pid)
}

// BenchmarkScreen is how long it takes from asking for a desktop until its
// screen answers.
func BenchmarkScreen(b *testing.B) {
	rt := desktopRuntime(b)
	for b.Loop() {
		sb, err := rt.Lease(b.Context(), sandbox.Spec{Class: sandbox.ClassDesktop})
		if err != nil {
			b.Fatal(err)
		}
		greet(b, sb)
		b.StopTimer()
		if err := sb.End(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
