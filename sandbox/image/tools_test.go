package image_test

import (
	"errors"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox/image"
)

func program(t testing.TB, name string) string {
	t.Helper()
	path, err := osexec.LookPath(name)
	if err != nil {
		runtimetest.Lacks(t, err, "apt-get install "+name)
	}
	return path
}

// Archives that skopeo made.
func TestSkopeo(t *testing.T) {
	is := is.New(t)
	skopeo := program(t, "skopeo")
	img := newImage(t, files{"etc/": "", "etc/a": "1", "b": "1"}, files{"b": "2", "etc/.wh.a": ""})
	from := "oci:" + saved(t, img) + ":image0"
	dir := t.TempDir()
	s := open(t, image.Config{})
	for kind, to := range map[string]string{
		"docker": "docker-archive:" + dir + "/docker.tar:localhost/tools:1",
		"oci":    "oci-archive:" + dir + "/oci.tar:tools",
		"layout": "oci:" + dir + "/layout:tools",
	} {
		run(t, skopeo, "--insecure-policy", "copy", from, to)
		_, err := finish(s.Import(t.Context(), strings.Split(to, ":")[1], kind))
		is.NoErr(err)
		got, err := get(t, s, kind)
		is.NoErr(err)
		is.Equal(text(t, got, "b"), "2")
		_, err = os.Stat(got.Root + "/etc/a")
		is.True(errors.Is(err, fs.ErrNotExist))
	}
	// And it reads what is exported here, in both of its forms.
	_, err := finish(s.Export(t.Context(), "oci", dir+"/exported.tar"))
	is.NoErr(err)
	run(t, skopeo, "--insecure-policy", "copy", "oci-archive:"+dir+"/exported.tar:oci", "dir:"+dir+"/a")
	run(t, skopeo, "--insecure-policy", "copy", "docker-archive:"+dir+"/exported.tar:oci:latest", "dir:"+dir+"/b")
}

// A layout that umoci made, of what was changed in a root file system.
func TestUmoci(t *testing.T) {
	is := is.New(t)
	umoci := program(t, "umoci")
	dir := t.TempDir()
	oci, bundle := dir+"/oci", dir+"/bundle"
	run(t, umoci, "init", "--layout", oci)
	run(t, umoci, "new", "--image", oci+":tools")
	run(t, umoci, "unpack", "--image", oci+":tools", bundle)
	is.NoErr(os.MkdirAll(bundle+"/rootfs/usr/lib", 0o755))
	is.NoErr(os.WriteFile(bundle+"/rootfs/usr/lib/a", []byte("1"), 0o644))
	is.NoErr(os.WriteFile(bundle+"/rootfs/usr/lib/gone", []byte("1"), 0o644))
	is.NoErr(os.Symlink("usr/lib", bundle+"/rootfs/lib"))
	is.NoErr(os.Link(bundle+"/rootfs/usr/lib/a", bundle+"/rootfs/usr/lib/b"))
	run(t, umoci, "repack", "--refresh-bundle", "--image", oci+":tools", bundle)
	is.NoErr(os.Remove(bundle + "/rootfs/usr/lib/gone"))
	run(t, umoci, "repack", "--image", oci+":tools", bundle)
	s := open(t, image.Config{})
	_, err := finish(s.Import(t.Context(), oci+"#tools", "tools"))
	is.NoErr(err)
	got, err := get(t, s, "tools")
	is.NoErr(err)
	is.Equal(text(t, got, "lib/a")+text(t, got, "usr/lib/b"), "11")
	_, err = os.Stat(got.Root + "/lib/gone")
	is.True(errors.Is(err, fs.ErrNotExist))

	to := filepath.Join(dir, "exported")
	_, err = finish(s.Export(t.Context(), "tools", to))
	is.NoErr(err)
	run(t, umoci, "unpack", "--image", to+":tools", dir+"/again")
	b, err := os.ReadFile(dir + "/again/rootfs/usr/lib/a")
	is.NoErr(err)
	is.Equal(string(b), "1")
}

func TestExport(t *testing.T) {
	is := is.New(t)
	img := newImage(t, files{"a": "1"}, files{"b": "2"})
	s := open(t, image.Config{})
	_, err := finish(s.Import(t.Context(), saved(t, img), "tools"))
	is.NoErr(err)
	dir := filepath.Join(t.TempDir(), "out")
	last, err := finish(s.Export(t.Context(), "tools", dir))
	is.NoErr(err)
	is.Equal(last.Digest, digestOf(t, img)) // it is the same
	is.Equal(last.Layers, 2)
	is.Equal(last.Bytes, last.Total)
	index, err := layout.ImageIndexFromPath(dir)
	is.NoErr(err)
	is.NoErr(validate.Index(index))
	_, err = finish(s.Export(t.Context(), "tools", dir))
	is.True(errors.Is(err, fs.ErrExist)) // nothing is overwritten
	_, err = finish(s.Export(t.Context(), "none", dir+"2"))
	is.True(err != nil)

	_, err = finish(s.Export(t.Context(), "tools", dir+".tar"))
	is.NoErr(err)
	other := open(t, image.Config{})
	last, err = finish(other.Import(t.Context(), dir+".tar", "tools"))
	is.NoErr(err)
	is.Equal(last.Digest, digestOf(t, img))
	entries, err := os.ReadDir(filepath.Dir(dir))
	is.NoErr(err)
	is.Equal(len(entries), 2) // nothing else is left
}
