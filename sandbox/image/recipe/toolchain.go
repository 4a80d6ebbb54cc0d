package recipe

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
)

// fetchGo puts a Go toolchain into a folder. It is fetched by the go command,
// which checks it, from where that is configured to.
func fetchGo(ctx context.Context, version, tmp, to string) error {
	cmd := osexec.CommandContext(ctx, "go", "mod", "download", "-json",
		fmt.Sprintf("golang.org/toolchain@v0.0.1-go%s.linux-%s", version, runtime.GOARCH))
	cmd.Dir = tmp // no module's
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if wrong := json.Unmarshal(out, &module); wrong != nil || module.Dir == "" {
		return fmt.Errorf("go mod download: Go %s: %w %s", version, err, module.Error)
	}
	at := filepath.Join(to, "usr/local/go")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(at, os.DirFS(module.Dir)); err != nil {
		return err
	}
	// A module's files cannot say that they are programs.
	for _, pattern := range []string{"bin/*", "pkg/tool/*/*"} {
		programs, err := filepath.Glob(filepath.Join(at, pattern))
		if err != nil {
			return err
		}
		for _, program := range programs {
			if err := os.Chmod(program, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}
