package exec

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// ownDir is the interpreter's folder in a session.
const ownDir = ".exec"

// script is a name that a script has while it runs.
var script = regexp.MustCompile(`^\.main-[a-z2-7]{16}(\.[a-z0-9]+)?$`)

const maxSegment = 255 // bytes in one name, as on Linux

// cleanName is the path, relative to the working directory, that a caller
// means by name. If work is given, name may be an absolute path within it.
func cleanName(name, work string) (string, error) {
	if strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return "", invalid("file name %s: want UTF-8 without NUL", quote(name))
	}
	rel := name
	if work != "" {
		rel = strings.TrimPrefix(name, work+"/")
	}
	if rel == "" || strings.HasSuffix(rel, "/") {
		return "", invalid("file name %s: want that of a file", quote(name))
	}
	if path.IsAbs(rel) {
		return "", invalid("file name %s: want one that is relative to the working directory", quote(name))
	}
	if rel = path.Clean(rel); rel == "." || !fs.ValidPath(rel) {
		return "", invalid("file name %s is outside the working directory", quote(name))
	}
	for segment := range strings.SplitSeq(rel, "/") {
		if len(segment) > maxSegment {
			return "", invalid("file name %s: %d bytes in one name, of at most %d", quote(name), len(segment), maxSegment)
		}
	}
	if isOwn(rel) {
		return "", invalid("file name %s is the interpreter's own", quote(name))
	}
	return rel, nil
}

// isOwn reports whether a path is of the interpreter's things, or of a file on
// its way in.
func isOwn(rel string) bool {
	top, _, nested := strings.Cut(rel, "/")
	return top == ownDir || !nested && script.MatchString(top) || strings.HasPrefix(path.Base(rel), ".upload-")
}

// caches are the names of folders that are not looked into, beside those that
// begin with a dot.
var caches = []string{"__pycache__", "node_modules"}
