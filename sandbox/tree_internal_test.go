//go:build linux

package sandbox

import (
	"testing"

	"github.com/matryer/is"
)

func TestTreeHasEachPathOnce(t *testing.T) {
	is := is.New(t)
	changed := stagedInfo{}
	tree := &Tree{Entries: []TreeEntry{{Path: "b"}, {Path: "a/f"}, {Path: "b"}, {Path: "a"}, {Path: "a/f", Info: changed}}}
	tree.sort()
	is.Equal(tree.Entries, []TreeEntry{{Path: "a"}, {Path: "a/f", Info: changed}, {Path: "b"}})
}
