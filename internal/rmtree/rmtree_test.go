package rmtree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/rmtree"
)

func TestRemove(t *testing.T) {
	is := is.New(t)
	outside := filepath.Join(t.TempDir(), "outside")
	is.NoErr(os.WriteFile(outside, nil, 0o600))
	root := filepath.Join(t.TempDir(), "root")
	is.NoErr(os.Mkdir(root, 0o700))
	is.NoErr(os.Symlink(filepath.Dir(outside), filepath.Join(root, "link")))
	is.NoErr(os.WriteFile(filepath.Join(root, ".removed-1"), nil, 0))
	is.NoErr(unix.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	const depth = 5000 // deeper than any path can name
	dir, err := os.OpenRoot(root)
	is.NoErr(err)
	for range depth {
		is.NoErr(dir.Mkdir("d", 0o700))
		is.NoErr(dir.WriteFile("f", nil, 0))
		next, err := dir.OpenRoot("d")
		is.NoErr(err)
		is.NoErr(dir.Close())
		dir = next
	}
	is.NoErr(dir.Close())
	is.NoErr(rmtree.Remove(root))
	_, err = os.Lstat(root)
	is.True(errors.Is(err, fs.ErrNotExist))
	_, err = os.Lstat(outside)
	is.NoErr(err)                 // a link is not followed
	is.NoErr(rmtree.Remove(root)) // that it is not there is no error
}
