// Package imagetest finds the images that tests run sandboxes on.
package imagetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
	"github.com/hanzoai/sandbox/sandbox/image/recipe"
)

// Require is the environment variable that makes a test fail that has no
// built image, instead of being skipped. To build them takes minutes.
const Require = "SANDBOX_REQUIRE_IMAGES"

// Built returns the store in which .ci/run keeps what it has built of the
// recipes, each once, if it has this one. Where it has not, the test is
// skipped.
func Built(t testing.TB, name string) *image.Store {
	t.Helper()
	s, err := Find(name)
	if errors.Is(err, sandbox.ErrNotFound) {
		if os.Getenv(Require) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Find is Built for who has something else to run on: an image that is not
// built is an error that matches sandbox.ErrNotFound.
func Find(name string) (*image.Store, error) {
	if race {
		return nil, &missing{"image " + name + " is not looked at under the race detector"}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	s, err := image.Open(image.Config{Dir: filepath.Join(cache, "hanzo-sandbox-test", "images")})
	if err != nil {
		return nil, err
	}
	r, ok := recipe.Find(name)
	if !ok {
		return nil, errors.New("no recipe " + name)
	}
	info, err := s.Inspect(name)
	if errors.Is(err, sandbox.ErrNotFound) || err == nil && info.Recipe != r.Digest() {
		return nil, &missing{"image " + name + " is not built: .ci/run images builds it"}
	}
	return s, err
}

type missing struct{ text string }

func (e *missing) Error() string { return e.text }
func (e *missing) Unwrap() error { return sandbox.ErrNotFound }

// Lease leases a sandbox on a recipe's image, which ends with the test.
func Lease(t testing.TB, spec sandbox.Spec) *sandbox.Sandbox {
	t.Helper()
	rt := runtimetest.New(t, sandbox.Config{Images: Built(t, spec.Image)})
	sb, err := rt.Lease(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}
