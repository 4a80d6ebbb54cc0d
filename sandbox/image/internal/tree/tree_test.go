package tree_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox/image/internal/tree"
)

// Entries of archives, briefly.
type entry struct {
	tar.Header
	text string
}

func file(name, text string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}, text}
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

func symlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, ""}
}

func link(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

func special(name string, kind byte) entry {
	return entry{tar.Header{Typeflag: kind, Name: name, Mode: 0o666, Devmajor: 1, Devminor: 3}, ""}
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.ModTime = time.Unix(1e9, 0)
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func budget() *tree.Budget { return &tree.Budget{MaxBytes: 64 << 20, MaxEntries: 10000} }

// A jail is a folder with a tree in it and something beside that must stay as
// it is.
type jail struct{ dir string }

const precious = "as it was"

func newJail(t testing.TB) jail {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("files of other users take root") // by runtimetest no fuzz test could be linked
	}
	j := jail{t.TempDir()}
	for _, name := range []string{"tree", "outside"} {
		if err := os.Mkdir(filepath.Join(j.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(j.dir, "outside", "file"), []byte(precious), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, _ := os.ReadDir(j.dir)
		names, _ := os.ReadDir(filepath.Join(j.dir, "outside"))
		text, _ := os.ReadFile(filepath.Join(j.dir, "outside", "file"))
		info, err := os.Stat(filepath.Join(j.dir, "outside", "file"))
		if len(names) != 1 || string(text) != precious || err != nil || info.Sys().(*syscall.Stat_t).Nlink != 1 {
			t.Errorf("something outside the tree has changed: %v %v %q", left, names, text)
		}
	})
	return j
}

func (j jail) tree() string { return filepath.Join(j.dir, "tree") }

func (j jail) outside() string { return filepath.Join(j.dir, "outside") }

func (j jail) unpack(t testing.TB, entries ...entry) (*tree.Layer, error) {
	t.Helper()
	return tree.Unpack(j.tree(), bytes.NewReader(archive(t, entries...)), budget())
}

// listing is what is in a tree: names with the text of files, or their kind.
func listing(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			list = append(list, name+"/")
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(path)
			list = append(list, name+" -> "+target)
		default:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			list = append(list, name+" = "+string(text))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// inside stands for a tree whose names hold the path of the test's own folder.
// What matters then is what is outside.
var inside = []string{"*"}

// What hostile archives try ends inside the tree, as it would for a process
// whose root it is, or is an error.
func TestHostileArchives(t *testing.T) {
	deep := strings.Repeat("d/", 201) + "f"
	for name, test := range map[string]struct {
		entries func(j jail) []entry
		want    []string // nil is an error
	}{
		"up":                {func(jail) []entry { return []entry{file("../outside/file", "x")} }, nil},
		"up in the middle":  {func(jail) []entry { return []entry{file("a/../../outside/file", "x")} }, nil},
		"absolute":          {func(j jail) []entry { return []entry{file("/etc/x", "x")} }, []string{"etc/", "etc/x = x"}},
		"relative link out": {func(jail) []entry { return []entry{symlink("l", "../outside"), file("l/file", "x")} }, []string{"l -> ../outside", "outside/", "outside/file = x"}},
		"absolute link out": {func(j jail) []entry { return []entry{symlink("l", j.outside()), file("l/file", "x")} }, inside},
		"link, then write":  {func(j jail) []entry { return []entry{symlink("f", j.outside()+"/file"), file("f", "x")} }, []string{"f = x"}},
		"link, then folder": {func(j jail) []entry { return []entry{symlink("d", j.outside()), dir("d"), file("d/file", "x")} }, []string{"d/", "d/file = x"}},
		"links to links": {func(jail) []entry {
			return []entry{symlink("a", "b/../../.."), symlink("b", "/../.."), file("a/outside/file", "x")}
		}, []string{"a -> b/../../..", "b -> /../..", "outside/", "outside/file = x"}},
		"a loop":            {func(jail) []entry { return []entry{symlink("a", "b"), symlink("b", "a"), file("a/f", "x")} }, nil},
		"hard link up":      {func(jail) []entry { return []entry{link("f", "../outside/file"), file("f", "x")} }, nil},
		"hard link by link": {func(j jail) []entry { return []entry{symlink("d", "../outside"), link("f", "d/file"), file("f", "x")} }, []string{"d -> ../outside", "f = x"}},
		"hard link to link": {func(j jail) []entry {
			return []entry{symlink("l", j.outside()+"/file"), link("f", "l"), file("f", "x")}
		}, inside},
		"hard link to folder":  {func(jail) []entry { return []entry{dir("d"), link("l", "d")} }, nil},
		"hard link, two names": {func(jail) []entry { return []entry{file("a", "old"), link("b", "a"), file("b", "new")} }, []string{"a = old", "b = new"}},
		"file as folder":       {func(jail) []entry { return []entry{file("a", "x"), file("a/b", "x")} }, nil},
		"folder, then link": {func(j jail) []entry {
			return []entry{file("d/a", "x"), symlink("d", "../outside"), file("d/file", "x")}
		}, []string{"d -> ../outside", "outside/", "outside/file = x"}},
		"folder, then file":   {func(jail) []entry { return []entry{file("d/e/f", "x"), file("d", "y")} }, []string{"d = y"}},
		"whiteout of ..":      {func(jail) []entry { return []entry{file("d/.wh...", "")} }, nil},
		"whiteout of nothing": {func(jail) []entry { return []entry{file("d/.wh.", "")} }, nil},
		"char device":         {func(jail) []entry { return []entry{special("null", tar.TypeChar)} }, nil},
		"block device":        {func(jail) []entry { return []entry{special("etc/sda", tar.TypeBlock)} }, nil},
		"device in dev":       {func(jail) []entry { return []entry{dir("dev"), special("dev/null", tar.TypeChar)} }, []string{"dev/"}},
		"pipe":                {func(jail) []entry { return []entry{special("run/p", tar.TypeFifo)} }, []string{}},
		"long name":           {func(jail) []entry { return []entry{file(strings.Repeat("n", 256), "x")} }, nil},
		"name that fits":      {func(jail) []entry { return []entry{file(strings.Repeat("n", 255), "x")} }, []string{strings.Repeat("n", 255) + " = x"}},
		"long path":           {func(jail) []entry { return []entry{file(strings.Repeat(strings.Repeat("n", 200)+"/", 16)+"f", "x")} }, nil},
		"deep path":           {func(jail) []entry { return []entry{file(deep, "x")} }, nil},
		"the top as a file":   {func(jail) []entry { return []entry{file(".", "x")} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			j := newJail(t)
			_, err := j.unpack(t, test.entries(j)...)
			switch {
			case test.want == nil:
				is.True(err != nil) // an error
			case len(test.want) == 1 && test.want[0] == inside[0]:
				is.NoErr(err)
			default:
				is.NoErr(err)
				is.Equal(fmt.Sprint(listing(t, j.tree())), fmt.Sprint(test.want))
			}
		})
	}
}

func TestSetUserIDIsDropped(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	su := file("su", "x")
	su.Mode = 0o6755
	mine := file("mine", "x")
	mine.Mode, mine.Uid, mine.Gid = 0o640, 1000, 1001
	tmp := dir("tmp")
	tmp.Mode = 0o7777
	_, err := j.unpack(t, su, mine, tmp)
	is.NoErr(err)
	is.Equal(stat(t, j.tree()+"/su").Mode(), fs.FileMode(0o755))
	is.Equal(stat(t, j.tree()+"/tmp").Mode(), fs.ModeDir|fs.ModeSticky|0o777)
	info := stat(t, j.tree()+"/mine")
	is.Equal(info.Mode(), fs.FileMode(0o640))
	is.Equal(info.Sys().(*syscall.Stat_t).Uid, uint32(1000))
	is.Equal(info.Sys().(*syscall.Stat_t).Gid, uint32(1001))
	is.Equal(info.ModTime().Unix(), int64(1e9))
}

func stat(t testing.TB, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestZerosBecomeHoles(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	text := strings.Repeat("\x00", 8<<20) + "end" + strings.Repeat("\x00", 1<<20)
	_, err := j.unpack(t, file("f", text))
	is.NoErr(err)
	got, err := os.ReadFile(j.tree() + "/f")
	is.NoErr(err)
	is.True(string(got) == text) // the content
	blocks := stat(t, j.tree()+"/f").Sys().(*syscall.Stat_t).Blocks * 512
	is.True(blocks < 1<<20) // not the zeros
}

func TestBudget(t *testing.T) {
	is := is.New(t)
	var many []entry
	for i := range 200 {
		many = append(many, file(fmt.Sprint(i), "x"))
	}
	for name, b := range map[string]*tree.Budget{
		"bytes":   {MaxBytes: 10 << 10, MaxEntries: 1000},
		"entries": {MaxBytes: 10 << 20, MaxEntries: 100},
	} {
		j := newJail(t)
		_, err := tree.Unpack(j.tree(), bytes.NewReader(archive(t, many...)), b)
		var big *tree.TooBigError
		is.True(errors.As(err, &big)) // too big
		is.Equal(big.What, name)
	}
}

// Many folders with long names take memory, and are refused before that is
// much.
func TestManyNames(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	long := strings.Repeat(strings.Repeat("n", 250)+"/", 11)
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for i := range 40 << 20 / len(long) {
		is.NoErr(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(long, ".wh.", i)}))
	}
	is.NoErr(w.Close())
	_, err := tree.Unpack(j.tree(), &raw, &tree.Budget{MaxBytes: 1 << 40, MaxEntries: 1 << 40})
	var big *tree.TooBigError
	is.True(errors.As(err, &big))
	is.Equal(big.What, "bytes of names")
}

// Links can lead deeper than any name.
func TestDeepByLinks(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	deep := strings.Repeat("d/", 150)
	_, err := j.unpack(t, file(deep+"f", "x"), symlink("l", deep), file("l/"+deep+"f", "x"))
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "too deep"))
}

// A sparse file may claim to be of any size.
func TestHugeSparseFile(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	_, err := tree.Unpack(j.tree(), bytes.NewReader(oldSparse(t, math.MaxInt64/4)), budget())
	var big *tree.TooBigError
	is.True(errors.As(err, &big)) // refused, not read
	j = newJail(t)
	part := oldSparse(t, 40<<20)
	_, err = tree.Unpack(j.tree(), bytes.NewReader(append(part[:512:512], part...)), budget())
	is.True(errors.As(err, &big)) // nor many of them
}

// oldSparse is an archive of one file in GNU's old sparse format, all hole.
func oldSparse(t testing.TB, size int64) []byte {
	t.Helper()
	raw := archive(t, entry{tar.Header{Typeflag: tar.TypeReg, Name: "big", Format: tar.FormatGNU}, ""})
	raw[156] = tar.TypeGNUSparse
	number := func(at int, n int64) { // base-256
		raw[at] = 0x80
		for i := range 8 {
			raw[at+11-i] = byte(n >> (8 * i))
		}
	}
	number(386, size) // the one fragment's offset
	number(398, 0)    // and length
	number(483, size) // the real size
	sum := 0
	for i, c := range raw[:512] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	copy(raw[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return raw
}

// lay unpacks layers and lays them over one another.
func lay(t testing.TB, j jail, layers ...[]entry) error {
	t.Helper()
	for i, entries := range layers {
		from := filepath.Join(j.dir, fmt.Sprint("layer", i))
		if err := os.Mkdir(from, 0o755); err != nil {
			t.Fatal(err)
		}
		l, err := tree.Unpack(from, bytes.NewReader(archive(t, entries...)), budget())
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Lay(j.tree(), from, l); err != nil {
			return err
		}
	}
	return nil
}

func TestLayers(t *testing.T) {
	for name, test := range map[string]struct {
		layers [][]entry
		want   []string
	}{
		"over":                {[][]entry{{file("a", "1"), file("b", "1")}, {file("b", "2"), file("c", "2")}}, []string{"a = 1", "b = 2", "c = 2"}},
		"whiteout":            {[][]entry{{file("d/a", "1"), file("d/b", "1")}, {file("d/.wh.a", "")}}, []string{"d/", "d/b = 1"}},
		"whiteout of folder":  {[][]entry{{file("d/e/f", "1")}, {file(".wh.d", "")}}, []string{}},
		"whiteout of own":     {[][]entry{{file("a", "1")}, {file("a", "2"), file(".wh.a", "")}}, []string{"a = 2"}},
		"whiteout of nothing": {[][]entry{{file("a", "1")}, {file("x/y/.wh.z", "")}}, []string{"a = 1"}},
		"whiteout by link":    {[][]entry{{symlink("l", "../../outside"), file("outside/file", "1")}, {file("l/.wh.file", "")}}, []string{"l -> ../../outside", "outside/"}},
		"opaque":              {[][]entry{{file("d/a", "1"), file("d/e/f", "1")}, {dir("d"), file("d/b", "2"), file("d/.wh..wh..opq", "")}}, []string{"d/", "d/b = 2"}},
		"opaque by link":      {[][]entry{{symlink("l", "../outside"), file("outside/file", "1")}, {file("l/.wh..wh..opq", "")}}, []string{"l -> ../outside", "outside/"}},
		"opaque nothing":      {[][]entry{{file("a", "1")}, {file("x/.wh..wh..opq", "")}}, []string{"a = 1"}},
		"folder over file":    {[][]entry{{file("a", "1")}, {file("a/b", "2")}}, []string{"a/", "a/b = 2"}},
		"file over folder":    {[][]entry{{file("a/b", "1")}, {file("a", "2")}}, []string{"a = 2"}},
		"named over link":     {[][]entry{{symlink("l", "d"), file("d/a", "1")}, {dir("l"), file("l/b", "2")}}, []string{"d/", "d/a = 1", "l/", "l/b = 2"}},
		"below a link":        {[][]entry{{symlink("lib", "usr/lib"), file("usr/lib/a", "1")}, {file("lib/b", "2")}}, []string{"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/a = 1", "usr/lib/b = 2"}},
		"below a link out":    {[][]entry{{symlink("l", "../../outside"), file("outside/a", "1")}, {file("l/file", "2")}}, []string{"l -> ../../outside", "outside/", "outside/a = 1", "outside/file = 2"}},
		"below a loop":        {[][]entry{{symlink("l", "l")}, {file("l/a", "2")}}, []string{"l/", "l/a = 2"}},
		"hard link below":     {[][]entry{{file("a", "1")}, {link("b", "a")}}, []string{"a = 1", "b = 1"}},
		"hard link by a link": {[][]entry{{symlink("l", "/d"), file("d/a", "1")}, {link("b", "l/a")}}, []string{"b = 1", "d/", "d/a = 1", "l -> /d"}},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			j := newJail(t)
			is.NoErr(lay(t, j, test.layers...))
			is.Equal(fmt.Sprint(listing(t, j.tree())), fmt.Sprint(test.want))
		})
	}
}

func TestHardLinkToNothing(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	err := lay(t, j, []entry{file("a", "1"), link("b", "gone/x")})
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "hard link"))
}

// Trees share their files, and have folders of their own.
func TestLayersAreShared(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	is.NoErr(lay(t, j, []entry{dir("d"), file("d/a", "1")}))
	is.True(os.SameFile(stat(t, j.tree()+"/d/a"), stat(t, j.dir+"/layer0/d/a")))
	is.True(!os.SameFile(stat(t, j.tree()+"/d"), stat(t, j.dir+"/layer0/d")))
	is.Equal(stat(t, j.tree()+"/d").ModTime().Unix(), int64(1e9))
}

// A folder that a layer does not name keeps what the one below says of it.
func TestFolderModes(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	private, other := dir("d"), dir("e")
	private.Mode, private.Uid = 0o700, 1000
	other.Mode = 0o711
	is.NoErr(lay(t, j, []entry{private, dir("e")}, []entry{file("d/a", "2"), other}))
	is.Equal(stat(t, j.tree()+"/d").Mode().Perm(), fs.FileMode(0o700))
	is.Equal(stat(t, j.tree()+"/d").Sys().(*syscall.Stat_t).Uid, uint32(1000))
	is.Equal(stat(t, j.tree()+"/e").Mode().Perm(), fs.FileMode(0o711))
}

func TestPlaces(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	_, err := j.unpack(t, symlink("mnt", j.outside()), symlink("home", "../outside"), file("tmp", "x"), dir("usr"))
	is.NoErr(err)
	is.NoErr(tree.Places(j.tree(), "/mnt/data", "/home/sandbox", "/tmp"))
	is.True(slices.Equal(listing(t, j.tree()), []string{"home/", "home/sandbox/", "mnt/", "mnt/data/", "tmp/", "usr/"}))
}

func TestTruncatedArchive(t *testing.T) {
	is := is.New(t)
	j := newJail(t)
	raw := archive(t, file("a", strings.Repeat("x", 4096)))
	_, err := tree.Unpack(j.tree(), bytes.NewReader(raw[:2048]), budget())
	is.True(err != nil)
}
