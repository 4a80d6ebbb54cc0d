// Package recipe builds root file systems for sandboxes from Debian's
// packages, with mmdebstrap, and without Docker, a registry or an account.
//
// Where packages come from is what apt is configured to on this machine, and
// likewise for npm and the go command, which some recipes take programs from.
// None of them is asked for anything but what a recipe names, by version and
// digest where Debian does not see to that.
package recipe
