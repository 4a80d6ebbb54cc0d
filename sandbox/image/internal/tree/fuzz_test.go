package tree_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanzoai/sandbox/sandbox/image/internal/tree"
)

// FuzzUnpack unpacks a few entries of any names and kinds and lays them over a
// tree. Whatever becomes of them, what is outside stays.
func FuzzUnpack(f *testing.F) {
	f.Add("a", "b", byte(tar.TypeReg), "l", "../outside", byte(tar.TypeSymlink), "l/file", "", byte(tar.TypeReg))
	f.Add("d/", "", byte(tar.TypeDir), "d", "/../outside", byte(tar.TypeSymlink), "d/.wh.file", "", byte(tar.TypeReg))
	f.Add("l", "..", byte(tar.TypeSymlink), "h", "l/outside/file", byte(tar.TypeLink), "h", "", byte(tar.TypeReg))
	f.Add("x/.wh..wh..opq", "", byte(tar.TypeReg), "x", "/", byte(tar.TypeSymlink), "x/y", "x", byte(tar.TypeLink))
	f.Fuzz(func(t *testing.T, n1, l1 string, k1 byte, n2, l2 string, k2 byte, n3, l3 string, k3 byte) {
		j := newJail(t) // which looks at the end
		if err := os.Symlink("../outside", filepath.Join(j.tree(), "there")); err != nil {
			t.Fatal(err)
		}
		var raw bytes.Buffer
		w := tar.NewWriter(&raw)
		for _, h := range []tar.Header{{Name: n1, Linkname: l1, Typeflag: k1}, {Name: n2, Linkname: l2, Typeflag: k2}, {Name: n3, Linkname: l3, Typeflag: k3}} {
			h.Mode = 0o755
			if w.WriteHeader(&h) != nil {
				return
			}
		}
		if err := w.Close(); err != nil {
			return
		}
		from := filepath.Join(j.dir, "layer")
		if err := os.Mkdir(from, 0o755); err != nil {
			t.Fatal(err)
		}
		if l, err := tree.Unpack(from, &raw, budget()); err == nil {
			_ = tree.Lay(j.tree(), from, l) // an error is as good as another
		}
	})
}
