package image

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/hanzoai/sandbox/sandbox"
)

// An imageName is an image string taken apart. One of its parts is set.
type imageName struct {
	short  string         // a name of the store's own
	path   string         // absolute, of a folder or file
	inside string         // which of several images there
	ref    name.Reference // of an image in a registry
}

// maxName is how long an image string may be.
const maxName = 1024

var shortName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

// parseName takes an image string apart:
//
//	exec                                a name of the store's own
//	/srv/images/tools.tar               a file or folder of this machine
//	/srv/images/tools.tar#tools:1.2     one of the images there
//	registry.example/org/tools:1.2      an image in a registry, by tag
//	registry.example/org/tools@sha256:… or by digest
//
// A name without a registry's host is never one of a registry: what is not
// built here must not be fetched from elsewhere because somebody took its name
// there.
func parseName(s string) (*imageName, error) {
	if len(s) > maxName || strings.ContainsAny(s, "\x00\n") {
		return nil, invalid("image %.80q…: no such name is possible", s)
	}
	if filepath.IsAbs(s) {
		path, inside, _ := strings.Cut(s, "#")
		return &imageName{path: filepath.Clean(path), inside: inside}, nil
	}
	if shortName.MatchString(s) {
		return &imageName{short: s}, nil
	}
	host, _, ok := strings.Cut(s, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return nil, invalid("image %.200q: it is a name, an absolute path, or a reference that begins with its registry's host", s)
	}
	ref, err := name.ParseReference(s)
	if err != nil {
		return nil, invalid("image %.200q: %v", s, err)
	}
	return &imageName{ref: ref}, nil
}

// String is the name in its longest form, by which the store knows it.
func (n *imageName) String() string {
	switch {
	case n.ref != nil:
		return n.ref.Name()
	case n.inside != "":
		return n.path + "#" + n.inside
	case n.path != "":
		return n.path
	}
	return n.short
}

func invalid(format string, args ...any) error {
	return refused(sandbox.ErrInvalid, format, args...)
}
