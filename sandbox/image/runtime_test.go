package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
)

// busybox is a root file system of one static program under many names. Links
// are names and where they lead.
func busybox(t testing.TB, links map[string]string, config v1.Config) v1.Image {
	t.Helper()
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		runtimetest.Lacks(t, err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	write := func(h *tar.Header, text []byte) {
		h.Size, h.Mode = int64(len(text)), h.Mode|0o755
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	write(&tar.Header{Typeflag: tar.TypeReg, Name: "opt/bin/busybox", Mode: 0o4000}, program)
	for _, name := range []string{"sh", "id", "cat", "env", "pwd", "ls", "echo", "true"} {
		write(&tar.Header{Typeflag: tar.TypeLink, Name: "opt/bin/" + name, Linkname: "opt/bin/busybox"}, nil)
	}
	write(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd"}, []byte("root:x:0:0::/root:/bin/sh\n"))
	for _, name := range slices.Sorted(maps.Keys(links)) {
		write(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: links[name]}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img := imageFor(t, "amd64")
	c, err := img.ConfigFile()
	if err == nil {
		c = c.DeepCopy()
		c.Architecture = hostArch
		c.Config = config
		img, err = mutate.ConfigFile(empty.Image, c)
	}
	if err == nil {
		img, err = mutate.AppendLayers(img, l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

var imageConfig = v1.Config{
	Env:  []string{"PATH=/opt/bin", "HOME=/root", "GREETING=hello"},
	User: "0", WorkingDir: "/opt", Entrypoint: []string{"/nonexistent"},
}

// sh runs a line of shell in a sandbox.
func sh(t testing.TB, sb *sandbox.Sandbox, line string) string {
	t.Helper()
	out, err := sb.Command("sh", "-c", line).Output(runtimetest.Context(t, time.Minute))
	if err != nil {
		t.Fatal(line, err)
	}
	return strings.TrimSpace(string(out))
}

// Sandboxes run on images from anywhere, named by one string.
func TestLeaseImages(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	img := busybox(t, nil, imageConfig)
	dir, archive := saved(t, img), savedDocker(t, img)
	ref := h.push(t, "acme/tools:1", img)
	s := open(t, image.Config{
		Folders:    []string{filepath.Dir(dir), filepath.Dir(archive)},
		Registries: []image.Registry{{Host: h.host, HTTP: true, Orgs: true}},
	})
	_, err := finish(s.Import(t.Context(), dir, "tools"))
	is.NoErr(err)
	rt := runtimetest.New(t, sandbox.Config{Images: s, Classes: []sandbox.Class{{Name: sandbox.ClassExec, TTL: time.Minute, Workdir: "/mnt/data", Image: "tools"}}})
	for _, name := range []string{"", "tools", dir, archive, ref, ref[:strings.LastIndex(ref, ":")] + "@" + digestOf(t, img)} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			sb, err := rt.For(sandbox.Owner{Org: "acme"}).Lease(t.Context(), sandbox.Spec{Image: name})
			is.NoErr(err)
			defer func() { is.NoErr(sb.End(t.Context())) }()
			is.Equal(sh(t, sb, "id -u; pwd; echo $GREETING $PATH $HOME"), "1000\n/mnt/data\nhello /opt/bin /home/sandbox")
			is.Equal(sh(t, sb, "id -un; echo x > file; cat file; echo x 2>/dev/null > /opt/file || echo read-only"), "sandbox\nx\nread-only")
			info, err := sb.Info(t.Context())
			is.NoErr(err)
			is.True(strings.HasPrefix(info.Digest, "sha256:"))
			if name != archive {
				is.Equal(info.Digest, digestOf(t, img)) // which image it is, is known later
			}
		})
	}
	_, err = rt.For(sandbox.Owner{Org: "other"}).Lease(t.Context(), sandbox.Spec{Image: ref})
	is.True(errors.Is(err, sandbox.ErrInvalid))
	_, err = rt.Lease(t.Context(), sandbox.Spec{Image: "none"})
	is.True(errors.Is(err, sandbox.ErrNotFound))
}

// An image's own links do not lead what is mounted, or who looks at it from
// outside, to this machine's files.
func TestHostileImage(t *testing.T) {
	is := is.New(t)
	outside := t.TempDir()
	is.NoErr(os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	img := busybox(t, map[string]string{
		"mnt": outside, "home": "../../../../../../../.." + outside, "tmp": outside, "proc": outside, "run": "/",
		"var": "..", "out": outside, "dev": "/proc", "sys": "out",
	}, imageConfig)
	s := open(t, image.Config{})
	_, err := finish(s.Import(t.Context(), saved(t, img), "hostile"))
	is.NoErr(err)
	rt := runtimetest.New(t, sandbox.Config{Images: s})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Image: "hostile"})
	is.NoErr(err)
	is.Equal(sh(t, sb, "echo x > /mnt/data/x; echo y > /tmp/y; echo z > /home/sandbox/z; cat /mnt/data/x /tmp/y /home/sandbox/z"), "x\ny\nz")
	is.Equal(sh(t, sb, "cat /out/secret 2>/dev/null || echo none"), "none")
	is.True(sb.WriteFile(t.Context(), "/out/new", strings.NewReader("x"), 0o644) != nil)
	entries, err := os.ReadDir(outside)
	is.NoErr(err)
	is.Equal(len(entries), 1) // nothing new
}

// The same of a folder that is used as it is: its links are the engine's to
// follow, from its own top.
func TestHostileFolder(t *testing.T) {
	is := is.New(t)
	outside := t.TempDir()
	img := busybox(t, map[string]string{"mnt": outside, "home": "../../../../../../../.." + outside, "tmp": outside}, imageConfig)
	s := open(t, image.Config{})
	_, err := finish(s.Import(t.Context(), saved(t, img), "hostile"))
	is.NoErr(err)
	layers, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(root(t, s, image.Info{Names: []string{"hostile"}}))), "..", "layers", "*", "tree"))
	is.NoErr(err)
	is.Equal(len(layers), 1) // as it was unpacked
	rt := runtimetest.New(t, sandbox.Config{Images: sandbox.Local{Dirs: map[string]string{"folder": layers[0]}}})
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Image: "folder"})
	if err == nil {
		_, err = sb.Command("/opt/bin/sh", "-c", "echo x > /mnt/data/x; echo y > /tmp/y").Output(t.Context())
		is.NoErr(err)
	}
	entries, err := os.ReadDir(outside)
	is.NoErr(err)
	is.Equal(len(entries), 0)
}

// What a sandbox uses is not collected, whatever becomes of its Runtime.
func TestSandboxHoldsImage(t *testing.T) {
	is := is.New(t)
	img := busybox(t, nil, imageConfig)
	s := open(t, image.Config{})
	_, err := finish(s.Import(t.Context(), saved(t, img), "tools"))
	is.NoErr(err)
	cfg := sandbox.Config{Images: s, Root: filepath.Join(t.TempDir(), "root")}
	rt := runtimetest.New(t, cfg)
	sb, err := rt.Lease(t.Context(), sandbox.Spec{Image: "tools"})
	is.NoErr(err)
	is.NoErr(s.Remove("tools"))
	done, err := s.GC(t.Context())
	is.NoErr(err)
	is.Equal(done.Images, 0)
	is.NoErr(rt.Detach())
	done, err = s.GC(t.Context())
	is.NoErr(err)
	is.Equal(done.Images, 0) // nobody runs it, but it lives
	rt = runtimetest.New(t, cfg)
	sb, err = rt.Attach(t.Context(), sb.ID())
	is.NoErr(err)
	is.Equal(sh(t, sb, "echo $GREETING"), "hello")
	is.NoErr(sb.End(t.Context()))
	done, err = s.GC(t.Context())
	is.NoErr(err)
	is.Equal(done.Images, 1)
}

// A lease that fails for want of an image leaves nothing.
func TestNoImageNoSandbox(t *testing.T) {
	is := is.New(t)
	root := filepath.Join(t.TempDir(), "root")
	rt := runtimetest.New(t, sandbox.Config{Images: open(t, image.Config{}), Root: root})
	_, err := rt.Lease(t.Context(), sandbox.Spec{Image: "none"})
	is.True(errors.Is(err, sandbox.ErrNotFound))
	left, err := os.ReadDir(filepath.Join(root, "sandboxes"))
	is.NoErr(err)
	is.Equal(len(left), 0)
}
