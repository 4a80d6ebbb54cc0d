//go:build linux

package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/hanzoai/sandbox/internal/headtail"
)

// screenScript starts the screen inside, unless it has been started already.
//
//go:embed desktop.sh
var screenScript string

// screenEnv has commands find the screen. A browser's own sandbox takes rights
// that nobody has in here, and is not needed.
var screenEnv = []string{
	"DISPLAY=:1", "XDG_RUNTIME_DIR=/tmp/xdg",
	"CHROMIUM_FLAGS=--no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --test-type --password-store=basic",
}

const (
	// screenTimeout bounds the start of the script, not of the screen.
	screenTimeout = 30 * time.Second
	// screenSaid is how much of its complaint is logged.
	screenSaid = 4 << 10
)

// startScreen starts the screen of a sandbox whose class has one. It outlives
// this Runtime, as the sandbox does, and is no use of the sandbox: a screen
// that nobody looks at keeps nothing alive.
func (s *instance) startScreen(l *life) {
	ctx, cancel := context.WithTimeout(l.ctx, screenTimeout)
	defer cancel()
	said := &headtail.Buffer{Limit: screenSaid}
	exit, err := l.client.Exec(ctx, s.command(&Process{
		Args: []string{"/bin/sh", "-c", screenScript}, Dir: homeDir, User: User{UID: defaultUID, GID: defaultUID}, Stderr: said,
	}))
	if err == nil && exit.Code != 0 {
		err = errors.New(string(bytes.TrimSpace(said.Bytes())))
	}
	if err != nil && l.ctx.Err() == nil {
		s.runtime.log.Warn("the screen was not started", "id", s.id, "error", err)
	}
}
