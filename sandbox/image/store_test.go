package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
)

// files are a layer: names and texts. A name that ends in a slash is a folder.
type files map[string]string

func layer(t testing.TB, list files) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range list {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(text)), ModTime: time.Unix(1e9, 0)}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const hostArch = runtime.GOARCH

// newImage is an image of layers, each of a few files, for this machine.
func newImage(t testing.TB, layers ...files) v1.Image {
	t.Helper()
	return imageFor(t, hostArch, layers...)
}

func imageFor(t testing.TB, arch string, layers ...files) v1.Image {
	t.Helper()
	oci := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(oci, &v1.ConfigFile{
		OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Env:  []string{"PATH=/opt/bin:/usr/bin:/bin", "HOME=/root", "GREETING=hello"},
			User: "0", WorkingDir: "/srv", Entrypoint: []string{"/entry"}, Cmd: []string{"arg"},
		},
	})
	for _, l := range layers {
		if err == nil {
			img, err = mutate.AppendLayers(img, layer(t, l))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func digestOf(t testing.TB, img v1.Image) string {
	t.Helper()
	h, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

func open(t testing.TB, cfg image.Config) *image.Store {
	t.Helper()
	if os.Geteuid() != 0 {
		runtimetest.Lacks(t, "unpacking takes root")
	}
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "store")
	}
	s, err := image.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// finish waits for a pull or an import, and returns the last it told.
func finish(steps iter.Seq2[image.Progress, error]) (last image.Progress, err error) {
	for p, e := range steps {
		last, err = p, e
	}
	return last, err
}

// saved writes an image as an OCI layout and returns its folder.
func saved(t testing.TB, images ...v1.Image) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	for i, img := range images {
		if err == nil {
			err = p.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": fmt.Sprint("image", i)}))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// savedDocker writes an image as docker does, and returns the archive.
func savedDocker(t testing.TB, img v1.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docker.tar")
	tag, err := name.NewTag("localhost/tools:1")
	if err == nil {
		err = tarball.WriteToFile(path, tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// get leases an image, with a folder that holds it as a sandbox's does.
func get(t testing.TB, s *image.Store, want string) (*sandbox.Image, error) {
	t.Helper()
	return s.Image(t.Context(), sandbox.ImageRequest{Name: want, Dir: t.TempDir(), Holder: t.TempDir()})
}

func text(t testing.TB, img *sandbox.Image, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(img.Root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestImport(t *testing.T) {
	img := newImage(t, files{"etc/passwd": "root:x:0:0::/root:/bin/sh\n", "a": "1", "b": "1"}, files{"b": "2", ".wh.a": ""})
	for form, path := range map[string]string{
		"layout":         saved(t, img),
		"named":          saved(t, img, newImage(t, files{"other": ""})) + "#image0",
		"by digest":      saved(t, newImage(t, files{"other": ""}), img) + "#" + digestOf(t, img),
		"docker archive": savedDocker(t, img),
		"docker tag":     savedDocker(t, img) + "#localhost/tools:1",
		"oci archive":    pack(t, saved(t, img), "tar", "-cf"),
		"gzip":           pack(t, saved(t, img), "tar", "-czf"),
		"zstd":           pack(t, saved(t, img), "tar", "--zstd", "-cf"),
	} {
		t.Run(form, func(t *testing.T) {
			is := is.New(t)
			s := open(t, image.Config{})
			last, err := finish(s.Import(t.Context(), path, "tools"))
			is.NoErr(err)
			is.Equal(last.Step, "done")
			is.Equal(last.Bytes, last.Total)
			is.Equal(last.Layers, 2)
			if !strings.HasPrefix(form, "docker") { // which has no manifest of its own
				is.Equal(last.Digest, digestOf(t, img))
			}
			got, err := get(t, s, "tools")
			is.NoErr(err)
			is.Equal(got.Digest, last.Digest)
			is.Equal(text(t, got, "b"), "2")
			is.True(strings.Contains(text(t, got, "etc/passwd"), "\nsandbox:x:1000:")) // added
			_, err = os.Stat(got.Root + "/a")
			is.True(errors.Is(err, os.ErrNotExist))
			_, err = os.Stat(got.Root + "/mnt/data")
			is.NoErr(err)
			is.Equal(fmt.Sprint(got.Env), "[PATH=/opt/bin:/usr/bin:/bin GREETING=hello]") // without HOME
			info, err := s.Inspect("tools")
			is.NoErr(err)
			is.Equal(info.Workdir, "/srv")
			is.Equal(fmt.Sprint(info.Entrypoint, info.Cmd), "[/entry] [arg]")
			is.Equal(info.User, "0")
		})
	}
}

// pack makes an archive of a folder by a program of the machine.
func pack(t testing.TB, dir string, command ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive")
	run(t, append(command, path, "-C", dir, ".")...)
	return path
}

func TestImportRefusals(t *testing.T) {
	is := is.New(t)
	s := open(t, image.Config{})
	two := saved(t, newImage(t, files{"a": ""}), newImage(t, files{"b": ""}))
	other := saved(t, imageFor(t, "s390x", files{"a": ""}))
	plain := filepath.Join(t.TempDir(), "file")
	is.NoErr(os.WriteFile(plain, []byte("no archive"), 0o600))
	for path, says := range map[string]string{
		two:                  "image0, image1",
		two + "#image7":      "image0, image1",
		other:                "s390x",
		plain:                "archive",
		t.TempDir():          "no OCI layout",
		"/nonexistent/image": "no such file",
	} {
		_, err := finish(s.Import(t.Context(), path, "x"))
		is.True(err != nil)
		is.True(strings.Contains(err.Error(), says)) // says what is wrong
	}
	for _, name := range []string{"host", "/a/path", "Upper", "", "a/b", strings.Repeat("x", 2000)} {
		_, err := finish(s.Import(t.Context(), saved(t, newImage(t, files{"a": ""})), name))
		is.True(errors.Is(err, sandbox.ErrInvalid))
	}
	list, err := s.List()
	is.NoErr(err)
	is.Equal(len(list), 0) // nothing kept
}

// Who leases may name paths only where that is allowed.
func TestPaths(t *testing.T) {
	is := is.New(t)
	dir := saved(t, newImage(t, files{"a": "1"}))
	secret := saved(t, newImage(t, files{"b": "1"}))
	is.NoErr(os.Symlink(secret, filepath.Join(dir, "link")))
	s := open(t, image.Config{Folders: []string{dir}, Dirs: map[string]string{"mine": secret}})
	got, err := get(t, s, dir)
	is.NoErr(err)
	is.Equal(text(t, got, "a"), "1")
	is.True(got.Digest != "")
	again, err := get(t, s, dir)
	is.NoErr(err)
	is.Equal(again.Root, got.Root)
	for _, path := range []string{secret, dir + "/link", dir + "/../../x", "/", "/etc", "relative/path"} {
		_, err := get(t, s, path)
		is.True(errors.Is(err, sandbox.ErrInvalid)) // not in an allowed folder
	}
	plain, err := get(t, s, dir+"/blobs")
	is.NoErr(err)
	is.Equal(plain.Root, dir+"/blobs") // a folder is a root file system
	named, err := get(t, s, "mine")
	is.NoErr(err)
	is.Equal(named.Root, secret)
	_, err = get(t, open(t, image.Config{}), dir)
	is.True(errors.Is(err, sandbox.ErrInvalid)) // none are by default
}

// A layout that has changed is another image.
func TestChangedPath(t *testing.T) {
	is := is.New(t)
	dir := saved(t, newImage(t, files{"a": "1"}))
	s := open(t, image.Config{Folders: []string{dir}})
	first, err := get(t, s, dir)
	is.NoErr(err)
	is.NoErr(os.RemoveAll(dir))
	is.NoErr(os.Rename(saved(t, newImage(t, files{"a": "2"})), dir))
	second, err := get(t, s, dir)
	is.NoErr(err)
	is.Equal(text(t, first, "a")+text(t, second, "a"), "12")
}

func TestUnknownName(t *testing.T) {
	is := is.New(t)
	s := open(t, image.Config{Dirs: map[string]string{"mine": "/"}})
	_, err := finish(s.Import(t.Context(), saved(t, newImage(t, files{"a": ""})), "tools"))
	is.NoErr(err)
	_, err = get(t, s, "tolls")
	is.True(errors.Is(err, sandbox.ErrNotFound))
	is.True(strings.Contains(err.Error(), "host, mine, tools")) // tells what there is
}

// Images share the layers that they have in common.
func TestSharedLayers(t *testing.T) {
	is := is.New(t)
	s := open(t, image.Config{})
	base := files{"usr/bin/tool": strings.Repeat("x", 1<<20)}
	var roots []string
	for i := range 50 {
		_, err := finish(s.Import(t.Context(), saved(t, newImage(t, base, files{"own": fmt.Sprint(i)})), fmt.Sprint("image", i)))
		is.NoErr(err)
		got, err := get(t, s, fmt.Sprint("image", i))
		is.NoErr(err)
		is.Equal(text(t, got, "own"), fmt.Sprint(i))
		roots = append(roots, got.Root)
	}
	first, err := os.Stat(roots[0] + "/usr/bin/tool")
	is.NoErr(err)
	for _, root := range roots {
		other, err := os.Stat(root + "/usr/bin/tool")
		is.NoErr(err)
		is.True(os.SameFile(first, other)) // not a copy
	}
}

func TestTooBig(t *testing.T) {
	is := is.New(t)
	dir := saved(t, newImage(t, files{"a": strings.Repeat("x", 60<<10)}, files{"b": strings.Repeat("y", 60<<10)}))
	s := open(t, image.Config{MaxImage: 100 << 10})
	_, err := finish(s.Import(t.Context(), dir, "big"))
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "102400 bytes"))
	s = open(t, image.Config{MaxEntries: 1})
	_, err = finish(s.Import(t.Context(), dir, "big"))
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "1 entries"))
}

// Who stops listening ends the import, and nothing is left of it.
func TestStopListening(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	s := open(t, image.Config{Dir: dir})
	for range s.Import(t.Context(), saved(t, newImage(t, files{"a": "1"})), "x") {
		break
	}
	left, err := os.ReadDir(filepath.Join(dir, "tmp"))
	is.NoErr(err)
	is.Equal(len(left), 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = finish(s.Import(ctx, saved(t, newImage(t, files{"a": "2"})), "y"))
	is.True(errors.Is(err, context.Canceled))
}
