// Command fetch gets the JavaScript modules of others that the pages use, to
// be built in:
//
//	go run ./server/web/fetch
//
// It wants npm, which checks what it gets against package-lock.json.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

// wanted are files of packages, and below what name pages ask for them.
var wanted = []struct{ from, to string }{
	{"@xterm/xterm/lib/xterm.mjs", "xterm/xterm.mjs"},
	{"@xterm/xterm/css/xterm.css", "xterm/xterm.css"},
	{"@xterm/xterm/LICENSE", "xterm/LICENSE"},
	{"@xterm/addon-fit/lib/addon-fit.mjs", "xterm/addon-fit.mjs"},
	{"@xterm/addon-web-links/lib/addon-web-links.mjs", "xterm/addon-web-links.mjs"},
	{"@novnc/novnc/core", "novnc/core"},
	{"@novnc/novnc/vendor", "novnc/vendor"},
	{"@novnc/novnc/LICENSE.txt", "novnc/LICENSE.txt"},
	{"@novnc/novnc/docs/LICENSE.MPL-2.0", "novnc/LICENSE.MPL-2.0"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) //nolint:forbidigo // the program's own
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := folder(ctx)
	if err != nil {
		return err
	}
	npm := osexec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
	npm.Dir, npm.Stdout, npm.Stderr = dir, os.Stdout, os.Stderr
	if err := npm.Run(); err != nil {
		return fmt.Errorf("npm ci: %w", err)
	}
	for _, w := range wanted {
		if err := replace(filepath.Join(dir, "node_modules", w.from), filepath.Join(dir, "modules", w.to)); err != nil {
			return err
		}
	}
	return nil
}

// folder is where the package of the pages is, from anywhere in the module.
func folder(ctx context.Context) (string, error) {
	out, err := osexec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/hanzoai/sandbox/server/web").Output()
	return strings.TrimSpace(string(out)), err
}

func replace(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	err = errors.Join(os.RemoveAll(to), os.MkdirAll(filepath.Dir(to), 0o755))
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	b, err := fs.ReadFile(os.DirFS(filepath.Dir(from)), filepath.Base(from))
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
