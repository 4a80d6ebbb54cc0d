// Command engine is the static program that tests built with cgo, as the race
// detector needs, name in Config.Executable.
package main

import (
	"fmt"
	"os"

	_ "github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc"
)

func main() {
	fmt.Fprintln(os.Stderr, "engine: started by a sandbox.Runtime, not by hand")
	os.Exit(2)
}
