package image_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
	"github.com/hanzoai/sandbox/sandbox/image/recipe"
)

// requireImages makes a test fail that has no built image, instead of being
// skipped. To build them takes too long for every run.
const requireImages = "SANDBOX_REQUIRE_IMAGES"

// built returns the store in which .ci/run keeps what it has built of the
// recipes, each once, if it has this one.
func built(t testing.TB, name string) *image.Store {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		runtimetest.Lacks(t, err)
	}
	s := open(t, image.Config{Dir: filepath.Join(cache, "hanzo-sandbox-test", "images")})
	r, ok := recipe.Find(name)
	if !ok {
		t.Fatal("no recipe ", name)
	}
	info, err := s.Inspect(name)
	if errors.Is(err, sandbox.ErrNotFound) || err == nil && info.Recipe != r.Digest() {
		if os.Getenv(requireImages) != "" {
			t.Fatal("image " + name + " is not built")
		}
		t.Skip("image " + name + " is not built: .ci/run images builds it")
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onBuilt leases a sandbox on a recipe's image.
func onBuilt(t testing.TB, name string) *sandbox.Sandbox {
	t.Helper()
	rt := runtimetest.New(t, sandbox.Config{Images: built(t, name)})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Image: name, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return sb
}
