// Package runsc carries the gVisor engine inside the program that imports it:
//
//	import _ "github.com/hanzoai/sandbox/sandbox/runsc"
//
// Nothing else has to be installed: the Runtime starts the program's own
// executable again, under another name, and the import turns that process
// into gVisor's runsc before main is reached. It works in test binaries too.
//
// The program must be a static binary, so build it with CGO_ENABLED=0. In a
// program built with cgo the import costs nothing, and sandbox.New says what
// to do. A program that imports this package grows by about 30 MB and starts
// about 10 ms later; one that would rather not can leave the import out and
// name a runsc in Config.Runsc, or a program that has it in
// Config.Executable.
package runsc
