//go:build linux

package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// A class with a screen wants an image with a desktop. What is missing is said
// at the lease, and nothing is left of it.
func TestScreenNeeds(t *testing.T) {
	is := is.New(t)
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		runtimetest.Lacks(t, "this machine has no static busybox to make an image of")
	}
	image := t.TempDir()
	has := func(name string) {
		t.Helper()
		is.NoErr(os.MkdirAll(filepath.Join(image, filepath.Dir(name)), 0o755))
		is.NoErr(os.WriteFile(filepath.Join(image, name), busybox, 0o755))
	}
	has("bin/sh")
	has("usr/bin/openbox")
	root := filepath.Join(t.TempDir(), "root")
	rt := runtimetest.New(t, sandbox.Config{
		Root: root, Images: sandbox.Local{Dirs: map[string]string{"tiny": image}},
		Classes: []sandbox.Class{{Name: "kiosk", TTL: time.Minute, Workdir: "/work", Screen: true}},
	})
	_, err = rt.Lease(t.Context(), sandbox.Spec{Class: "kiosk", Image: "tiny"})
	is.True(errors.Is(err, sandbox.ErrInvalid))
	for _, word := range []string{"image tiny", "class kiosk", "an X server", "Xtigervnc", "a browser", "chromium", "sandbox-image build desktop"} {
		is.True(strings.Contains(err.Error(), word)) // and what makes one that has it
	}
	is.True(!strings.Contains(err.Error(), "openbox")) // which it has
	for range rt.List(t.Context()) {
		t.Fatal("a refused lease left a sandbox")
	}
	left, err := os.ReadDir(filepath.Join(root, "sandboxes"))
	is.NoErr(err)
	is.Equal(len(left), 0)

	has("usr/local/bin/Xvnc")
	is.NoErr(os.Symlink("../lib/chromium/chromium", filepath.Join(image, "usr/bin/chromium"))) // wherever it leads
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Class: "kiosk", Image: "tiny"})
	is.NoErr(err)
	is.NoErr(sb.End(t.Context()))
	_, err = rt.Lease(t.Context(), sandbox.Spec{Image: "tiny"}) // others need nothing
	is.NoErr(err)
}

// Image host is a desktop where this machine is one, and says so where it is
// not.
func TestScreenOnHost(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	_, err := rt.Lease(t.Context(), sandbox.Spec{Class: sandbox.ClassDesktop, Project: "p"})
	_, x := os.Stat("/usr/bin/Xtigervnc")
	if x == nil {
		t.Skip("this machine has a desktop")
	}
	is.True(errors.Is(err, sandbox.ErrInvalid))
	is.True(strings.Contains(err.Error(), "image host lacks what class desktop needs: an X server"))
}
