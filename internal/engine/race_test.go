//go:build race

package engine_test

import (
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/engine"
)

func TestStaticOfSelf(t *testing.T) {
	is := is.New(t)
	is.Equal(engine.Static(engine.Self), engine.ErrCgo) // the race detector takes cgo
}
