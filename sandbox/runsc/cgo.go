//go:build cgo || !linux

package runsc

import "github.com/hanzoai/sandbox/internal/engine"

func init() { engine.Embed(engine.ErrCgo) }
