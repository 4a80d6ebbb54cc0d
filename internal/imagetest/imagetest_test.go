package imagetest_test

import (
	"errors"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/imagetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// What is not there is skipped or fails the gate, never run on something else.
func TestFind(t *testing.T) {
	is := is.New(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := imagetest.Find("exec")
	is.True(errors.Is(err, sandbox.ErrNotFound))
	t.Run("skipped", func(t *testing.T) {
		defer func() { is.True(t.Skipped()) }()
		t.Setenv(imagetest.Require, "")
		imagetest.Built(t, "exec")
	})
}
