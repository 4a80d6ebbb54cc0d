//go:build linux

package sandbox

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/hanzoai/sandbox/internal/engine"
	"github.com/hanzoai/sandbox/internal/guest"
)

// ErrCgo is why a program that is not a static binary cannot carry the
// engine. Its text names the remedy.
var ErrCgo error = engine.ErrCgo

// checkExecutable refuses a program that could not play the parts that the
// Runtime starts it for. To find that out by starting it would be to run a
// program that nobody asked for.
func checkExecutable(path string, needEngine bool) error {
	if path == engine.Self {
		return engine.Static(path)
	}
	if err := engine.Static(path); errors.Is(err, engine.ErrCgo) {
		return fmt.Errorf("Config.Executable: %s is not a static binary: build it with CGO_ENABLED=0", path)
	} else if err != nil {
		return fmt.Errorf("Config.Executable: %w", err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("Config.Executable: %w", err)
	}
	if needEngine {
		for _, dep := range info.Deps {
			if dep.Path == "gvisor.dev/gvisor" {
				return nil
			}
		}
		return fmt.Errorf("Config.Executable: %s does not import sandbox/runsc", path)
	}
	return nil
}

// installInit puts a copy of the executable that is the init under root, in a
// folder of its own that sandboxes see, and returns that folder. Only root
// can read it: the program may hold what is not for guests. A copy is named by
// the file that it is of, so that each is made once.
func installInit(executable, root string) (string, error) {
	src, err := os.Open(executable)
	if err != nil {
		return "", err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, fileKey(info))
	target := filepath.Join(dir, filepath.Base(guest.Init))
	if have, err := os.Stat(target); err == nil && have.Size() == info.Size() {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, copyExecutable(target, src)
}

func copyExecutable(target string, src io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(target), ".init-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := io.Copy(f, src); err != nil {
		f.Close()
		return err
	}
	if err := f.Chmod(0o500); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}

// fileKey tells one version of a file from any other without reading it.
func fileKey(info os.FileInfo) string {
	h := fnv.New128a()
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok {
		fmt.Fprint(h, st.Dev, st.Ino, st.Ctim)
	}
	fmt.Fprint(h, info.Size(), info.ModTime().UnixNano())
	return strconv.FormatInt(info.Size(), 36) + "-" + fmt.Sprintf("%x", h.Sum(nil)[:8])
}
