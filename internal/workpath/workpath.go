// Package workpath has the rule by which every driver takes file names.
package workpath

import (
	"fmt"
	"path"
	"strings"
)

// Resolve returns the absolute path that name stands for in a sandbox whose
// working directory is workdir: name is relative to it, or absolute and within
// it. Leaving it is refused, not corrected. The rule catches mistakes; what
// keeps a guest inside is that the guest opens its files itself.
func Resolve(workdir, name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%.40q has a NUL byte", name)
	}
	full := name
	if !path.IsAbs(name) {
		full = workdir + "/" + name
	}
	full = path.Clean(full)
	if full == workdir || strings.HasPrefix(full, workdir+"/") {
		return full, nil
	}
	return "", fmt.Errorf("%.80q is outside the working directory: name a file below %s", name, workdir)
}

// Dir is Resolve for the directory that a command starts in, which may be any
// in the sandbox.
func Dir(workdir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(workdir, name)
}
