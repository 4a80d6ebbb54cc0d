package sandboxtest

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// linkCases are about symbolic links, which programs make, for drivers with
// FileSystem.
var linkCases = cases{
	{"link to a file", linkToFile},
	{"link to a directory", linkToDirectory},
	{"link out of the workdir", linkOut},
	{"link to nothing", linkToNothing},
	{"links in a circle", linkLoop},
	{"removal of a link", removeLink},
}

func linkToFile(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	fsys := sb.FS(bounded(t))
	write(t, sb, "link-to-file/target", "old", 0o600)
	outputOf(t, sb, "ln", "-s", "target", "link-to-file/link")
	is.Equal(read(t, sb, "link-to-file/link"), "old")
	write(t, sb, "link-to-file/link", "new", 0o644)
	is.Equal(read(t, sb, "link-to-file/target"), "new") // what it points to has changed
	is.Equal(stat(t, sb, "link-to-file/target").Mode(), fs.FileMode(0o600))
	to, err := fs.ReadLink(fsys, "link-to-file/link")
	is.NoErr(err)
	is.Equal(to, "target") // and it is still a link
	info, err := fs.Lstat(fsys, "link-to-file/link")
	is.NoErr(err)
	is.Equal(info.Mode().Type(), fs.ModeSymlink)
	is.Equal(info.Name(), "link")
	info = stat(t, sb, "link-to-file/link")
	is.Equal(info.Mode(), fs.FileMode(0o600))
	is.Equal(info.Name(), "link")
	_, err = fs.ReadLink(fsys, "link-to-file/target")
	is.True(err != nil) // not a link
	is.Equal(list(t, sb, "link-to-file"), []string{"link", "target"})
}

func linkToDirectory(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "link-to-dir/real/file", "x", 0o644)
	outputOf(t, sb, "ln", "-s", "real", "link-to-dir/link")
	is.Equal(read(t, sb, "link-to-dir/link/file"), "x")
	is.Equal(list(t, sb, "link-to-dir/link"), []string{"file"})
	write(t, sb, "link-to-dir/link/new/file", "y", 0o644)
	is.Equal(read(t, sb, "link-to-dir/real/new/file"), "y")
	is.NoErr(sb.Mkdir(bounded(t), "link-to-dir/link", 0o755)) // it leads to one
	is.True(sb.WriteFile(bounded(t), "link-to-dir/link", strings.NewReader("z"), 0o644) != nil)
}

// linkOut has links mean what they mean inside, and nothing of this machine.
func linkOut(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	outputOf(t, sb, "sh", "-c", "echo inside > /tmp/link-out")
	outputOf(t, sb, "ln", "-s", "/tmp/link-out", "link-out")
	is.Equal(read(t, sb, "link-out"), "inside\n")
	write(t, sb, "link-out", "changed", 0o644)
	is.Equal(outputOf(t, sb, "cat", "/tmp/link-out"), "changed")
	outputOf(t, sb, "ln", "-s", "../../../../../../tmp/link-out", "link-up")
	is.Equal(read(t, sb, "link-up"), "changed")
}

func linkToNothing(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "link-to-nothing/file", "", 0o644)
	outputOf(t, sb, "ln", "-s", "none", "link-to-nothing/link")
	_, err := fs.ReadFile(sb.FS(bounded(t)), "link-to-nothing/link")
	is.True(errors.Is(err, fs.ErrNotExist))
	_, err = fs.Stat(sb.FS(bounded(t)), "link-to-nothing/link")
	is.True(errors.Is(err, fs.ErrNotExist))
	_, err = fs.Lstat(sb.FS(bounded(t)), "link-to-nothing/link")
	is.NoErr(err) // the link itself is there
	is.Equal(list(t, sb, "link-to-nothing"), []string{"file", "link"})
	write(t, sb, "link-to-nothing/link", "made", 0o644)
	is.Equal(read(t, sb, "link-to-nothing/none"), "made") // what it points to is made
}

func linkLoop(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "link-loop/file", "", 0o644)
	outputOf(t, sb, "ln", "-s", "b", "link-loop/a")
	outputOf(t, sb, "ln", "-s", "a", "link-loop/b")
	_, err := fs.ReadFile(sb.FS(bounded(t)), "link-loop/a")
	is.True(err != nil && !errors.Is(err, fs.ErrNotExist))
	is.True(sb.WriteFile(bounded(t), "link-loop/a", strings.NewReader("x"), 0o644) != nil)
	is.True(sb.WriteFile(bounded(t), "link-loop/a/x", strings.NewReader("x"), 0o644) != nil)
	is.Equal(list(t, sb, "link-loop"), []string{"a", "b", "file"})
}

func removeLink(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	write(t, sb, "remove-link/dir/file", "x", 0o644)
	outputOf(t, sb, "ln", "-s", "dir", "remove-link/one")
	outputOf(t, sb, "ln", "-s", "dir", "remove-link/two")
	is.NoErr(sb.Remove(bounded(t), "remove-link/one"))
	is.NoErr(sb.RemoveAll(bounded(t), "remove-link/two"))
	is.Equal(list(t, sb, "remove-link"), []string{"dir"})
	is.Equal(read(t, sb, "remove-link/dir/file"), "x")
}
