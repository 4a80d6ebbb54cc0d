//go:build !cgo

package engine_test

import (
	"os"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/engine"
)

func TestStaticOfSelf(t *testing.T) {
	is := is.New(t)
	is.NoErr(engine.Static(engine.Self)) // built with CGO_ENABLED=0
	path, err := os.Executable()
	is.NoErr(err)
	is.NoErr(engine.Static(path))
}
