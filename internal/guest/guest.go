// Package guest is the way into a sandbox: when this executable is started as
// the init of a sandbox, importing the package turns it into that init.
package guest

import (
	"os"

	"github.com/hanzoai/sandbox/internal/guest/initd"
)

// Init is the argv[0] under which an executable that imports this package is
// the init of a sandbox. It is also the path at which the executable is seen
// there.
const Init = "/run/sandbox/bin/init"

// init must not wait for main, as a test binary has no main of ours, nor for
// the packages of the program that carries it: Go initialises a package as
// soon as its imports are ready, and those of initd are few.
func init() {
	if len(os.Args) > 1 && os.Args[0] == Init {
		initd.Main(os.Args[1:])
	}
}
