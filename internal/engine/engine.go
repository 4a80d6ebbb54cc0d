// Package engine names the parts that one executable plays: the program that
// imports the module, runsc on the host, and the init inside a sandbox. It
// imports next to nothing, since it is consulted at every process start.
package engine

import (
	"errors"
	"os"
	"strings"
)

// Runsc is the argv[0] under which the Runtime starts an executable that
// carries the engine.
const Runsc = "sandbox-runsc"

// ErrNotEmbedded says that no engine was linked in.
var ErrNotEmbedded = errors.New(`no engine: import _ "github.com/hanzoai/sandbox/sandbox/runsc", or name one in Config.Runsc or Config.Executable`)

// ErrCgo says that this program cannot run again as the engine or as the
// init inside a sandbox, because neither finds a dynamic linker there.
var ErrCgo = errors.New("this program is not a static binary: build it with CGO_ENABLED=0 (go env -w CGO_ENABLED=0 makes that the default), or name one that is in Config.Executable")

var embedded = ErrNotEmbedded

// Embed records, from the init of package runsc, whether this executable can
// serve as the engine.
func Embed(err error) { embedded = err }

// Embedded returns nil if this executable can serve as the engine, else why
// it cannot.
func Embedded() error { return embedded }

// IsRunsc reports whether a process started with args is to be runsc. Runsc
// clears the environment of its own children and starts its umounter from
// inside a chroot, so argv is the only mark that all of them bear.
func IsRunsc(args []string) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0] {
	case Runsc, "runsc-gofer", "runsc-sandbox":
		return true
	case "/proc/self/exe":
		return len(args) > 2 && args[1] == "umount" && strings.HasPrefix(args[2], "--sync-fd=")
	}
	return false
}

// Self is the path by which a process starts its own executable, also after
// the file has been replaced.
const Self = "/proc/self/exe"

// Static returns nil if the executable at path needs no dynamic linker.
func Static(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return static(f)
}
