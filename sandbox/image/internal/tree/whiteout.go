package tree

import (
	"errors"
	"path"
	"strings"
)

// Entries whose name begins so stand for what is absent: see the image
// specification of OCI, "Representing Changes".
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// whiteout notes what a layer removes from those below.
func (u *unpacker) whiteout(name, base string) error {
	switch {
	case base == whiteoutOpaque:
		u.layer.Opaque = append(u.layer.Opaque, []byte(path.Dir(name)))
		return u.budget.Names(name)
	case strings.HasPrefix(base, whiteoutMeta):
		return nil // what aufs kept for itself
	}
	gone := strings.TrimPrefix(base, whiteoutPrefix)
	if gone == "" || gone == "." || gone == ".." {
		return errors.New("a whiteout of no name")
	}
	u.layer.Whiteouts = append(u.layer.Whiteouts, []byte(path.Join(path.Dir(name), gone)))
	return u.budget.Names(name)
}
