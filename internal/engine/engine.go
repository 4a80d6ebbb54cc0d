// Package engine names the parts that one executable plays: the program that
// imports the module, runsc on the host, and the init inside a sandbox.
//
// It is consulted at every process start, so it imports next to nothing: Go
// initialises it before nearly everything else.
package engine

import (
	"errors"
	"os"
	"syscall"
)

// Runsc is the argv[0] under which the Runtime starts an executable that
// carries the engine.
const Runsc = "sandbox-runsc"

// Self is the path by which a process starts its own executable, also after
// the file has been replaced.
const Self = "/proc/self/exe"

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

// IsRunsc reports whether a process started with args is to be runsc.
func IsRunsc(args []string) bool {
	if len(args) == 0 {
		return false
	}
	return args[0] == Runsc || args[0] == "runsc-gofer" || args[0] == "runsc-sandbox"
}

// IsUmounter reports whether a process started with args is the helper that
// the engine starts from inside a chroot to unmount a folder there. Its
// environment is empty, so argv is the only mark that it bears.
func IsUmounter(args []string) bool {
	return len(args) == 4 && args[0] == Self && args[1] == "umount" && args[2] == "--sync-fd=3"
}

// init is that helper. Runsc has a command for it, but what it does takes two
// system calls, and to get there a process would first initialise all of
// gVisor, while the sandbox waits: a tenth of its start.
func init() {
	if IsUmounter(os.Args) {
		os.Exit(umount(os.Args[3]))
	}
}

// umount waits for the word on descriptor 3.
func umount(dir string) int {
	var word [1]byte
	if n, err := syscall.Read(3, word[:]); n != 1 || err != nil {
		return 1
	}
	if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
		return 1
	}
	return 0
}
