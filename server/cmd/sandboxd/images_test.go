package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
)

// archive writes an image of a static program under a few names.
func archive(t *testing.T) string {
	t.Helper()
	is := is.New(t)
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		runtimetest.Lacks(t, err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range map[string][]byte{"bin/sh": program, "bin/cat": program, "bin/true": program, "etc/which": []byte("tools\n")} {
		is.NoErr(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(text))}))
		_, err := w.Write(text)
		is.NoErr(err)
	}
	is.NoErr(w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	is.NoErr(err)
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH})
	is.NoErr(err)
	img, err = mutate.AppendLayers(img, layer)
	is.NoErr(err)
	tag, err := name.NewTag("example/tools:1")
	is.NoErr(err)
	path := filepath.Join(t.TempDir(), "tools.tar")
	is.NoErr(tarball.WriteToFile(path, tag, img))
	return path
}

// TestImages has a server lease what the command beside it has imported, and
// nothing that its policy does not have.
func TestImages(t *testing.T) {
	is := is.New(t)
	root := t.TempDir()
	path := archive(t)
	_, err := output(t, root, nil, "images", "import", path, "tools")
	is.NoErr(err)
	list, err := output(t, root, nil, "images", "list")
	is.NoErr(err)
	is.True(strings.Contains(list, "tools"))
	for _, arg := range [][]string{{"images"}, {"images", "nosuch"}, {"images", "import", "/nosuch.tar", "x"}} {
		if out, err := output(t, root, nil, arg...); err == nil {
			t.Errorf("%q was taken: %s", arg, out)
		}
	}

	const key = "sk-a-key-of-a-test-of-images"
	p := startDaemon(t, root, "SANDBOXD_KEY="+key, "SANDBOXD_IMAGES=exec=tools", "SANDBOXD_PLATFORM_REGISTRIES=registry.example",
		"SANDBOXD_IMAGE_FOLDERS="+filepath.Dir(path))
	is.Equal(status(t, p.url+"/readyz", ""), 200)
	remote, err := client.New(p.url, client.Config{Key: key})
	is.NoErr(err)
	for name, want := range map[string]string{"": "tools", "tools": "tools", path + "#example/tools:1": path + "#example/tools:1"} {
		sb, err := remote.Lease(t.Context(), sandbox.Spec{Image: name})
		is.NoErr(err)
		out, err := sb.Command("cat", "/etc/which").Output(t.Context())
		is.NoErr(err)
		is.Equal(string(out), "tools\n")
		info, err := sb.Info(t.Context())
		is.NoErr(err)
		is.Equal(info.Image, want)
		is.True(strings.HasPrefix(info.Digest, "sha256:"))
		is.NoErr(sb.End(t.Context()))
	}
	for _, name := range []string{
		"registry.example/other/tools:1", "elsewhere.example/default/tools:1", "nosuch", "../x", "/", "/etc", root, imagesDir(root),
		filepath.Dir(path) + "/../x", "http://x/y", strings.Repeat("x", 600), "a\nb",
	} {
		_, err := remote.Lease(t.Context(), sandbox.Spec{Image: name})
		want := sandbox.ErrInvalid
		if name == "nosuch" {
			want = sandbox.ErrNotFound // as of the store itself
		}
		if !errors.Is(err, want) {
			t.Errorf("image %.50q: %v", name, err)
		} else if strings.Contains(err.Error(), root) && !strings.HasPrefix(name, root) {
			t.Errorf("image %.50q tells of the server: %v", name, err)
		}
	}
	is.NoErr(p.stop(t))
}

func TestImagePolicy(t *testing.T) {
	is := is.New(t)
	s := &settings{root: "/r", images: imagePolicy{
		byClass: "base,dev=dev", registries: "docker.io,*", platform: "registry.example", shared: "common", folders: "/srv/images",
	}}
	is.NoErr(s.images.check())
	is.Equal(s.imageConfig(), image.Config{
		Dir: "/r/images", Folders: []string{"/srv/images"},
		Registries: []image.Registry{{Host: "registry.example", Login: true, Orgs: true, Shared: []string{"common"}}, {Host: "docker.io"}, {Host: "*"}},
	})
	images := map[string]string{}
	for _, c := range s.classes() {
		images[c.Name] = c.Image
		is.True(c.TTL > 0) // the rest is as it was
	}
	is.Equal(images, map[string]string{"exec": "base", "dev": "dev", "desktop": "base"})
	for _, wrong := range []string{"nosuch=x", "exec=", "=x"} {
		is.True((&imagePolicy{byClass: wrong}).check() != nil)
	}
}
