package recipe_test

import (
	"encoding/json"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox/image/recipe"
)

func TestFind(t *testing.T) {
	is := is.New(t)
	for _, name := range []string{"base", "exec", "dev", "desktop"} {
		r, ok := recipe.Find(name)
		is.True(ok)
		is.Equal(r.Name, name)
		is.True(r.Summary != "")
	}
	_, ok := recipe.Find("none")
	is.True(!ok)
}

// A digest is of all that a recipe says.
func TestDigest(t *testing.T) {
	is := is.New(t)
	seen := map[string]string{}
	for _, r := range recipe.All() {
		is.Equal(seen[r.Digest()], "")
		is.Equal(r.Digest(), r.Digest())
		seen[r.Digest()] = r.Name
		more := r
		more.Include = append(more.Include[:len(more.Include):len(more.Include)], "hello")
		is.True(more.Digest() != r.Digest())
	}
}

// No recipe names a place to get packages from, which is the machine's to say.
func TestNoMirrors(t *testing.T) {
	is := is.New(t)
	b, err := json.Marshal(recipe.All())
	is.NoErr(err)
	is.True(!regexp.MustCompile(`://`).Match(b))
	hook, err := os.ReadFile("hook.sh")
	is.NoErr(err)
	is.True(!strings.Contains(string(hook), "://"))
	// mmdebstrap's configuration of apt is there: without it apt would tidy up
	// this machine, not the image.
	is.True(!regexp.MustCompile(`rm .*\$root"?/tmp`).Match(hook))
}

// Packages come from the mirrors that this machine has for its own release,
// and from no other place that it gets packages from.
func TestMirrors(t *testing.T) {
	is := is.New(t)
	codename, err := recipe.HostRelease()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	is.NoErr(os.WriteFile(dir+"/m_dists_x_InRelease", []byte("Origin: Debian\nDate: Sat, 11 Jul 2026 10:16:37 UTC\nMD5Sum:\n"), 0o644))
	lines, updated, err := recipe.Mirrors([][4]string{
		{"http://m/debian", codename, "main", dir + "/m_dists_x_main_binary-amd64_Packages.lz4"},
		{"http://m/debian", codename, "main", dir + "/m_dists_x_main_binary-i386_Packages.lz4"},
		{"http://m/debian", codename, "contrib", dir + "/none"},
		{"http://s/security", codename + "-security", "main", dir + "/none"},
		{"http://other/vendor", "nodistro", "main", dir + "/none"},
		{"http://m/debian", codename + "-backports", "main", dir + "/none"},
	}, "suite")
	is.NoErr(err)
	is.Equal(strings.Join(lines, "\n"), "deb http://m/debian suite main\ndeb http://s/security suite-security main")
	is.Equal(updated.Unix(), int64(1783764997))
	_, _, err = recipe.Mirrors(nil, "suite")
	is.True(err != nil)
	_, _, err = recipe.Mirrors([][4]string{{"http://m/debian", codename, "main", dir + "/none"}}, "suite")
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "apt-get update"))
}

func TestMissingPrograms(t *testing.T) {
	is := is.New(t)
	t.Setenv("PATH", t.TempDir())
	r, _ := recipe.Find("exec")
	_, err := recipe.Build(t.Context(), r, filepath.Join(t.TempDir(), "x"), io.Discard)
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "apt-get install"))
	is.True(strings.Contains(err.Error(), "mmdebstrap"))
}

// slow is set where building twice is worth its minutes.
const slow = "SANDBOX_BUILD_TWICE"

// Two builds are one image, to the last bit, and have nothing of where their
// packages came from.
func TestReproducible(t *testing.T) {
	is := is.New(t)
	if os.Getenv(slow) == "" {
		t.Skip("takes minutes: set " + slow)
	}
	r, _ := recipe.Find("base")
	var digests []string
	for range 2 {
		dir := filepath.Join(t.TempDir(), "base")
		built, err := recipe.Build(t.Context(), r, dir, t.Output())
		is.NoErr(err)
		digests = append(digests, built.Digest)
		list := names(t, dir)
		is.True(strings.Contains(list, "./usr/bin/python3"))
		is.True(strings.Contains(list, "./usr/share/sandbox/packages"))
		for _, gone := range []string{
			`/etc/apt/sources\.list\n`, `/etc/apt/sources\.list\.d/.`, `/var/lib/apt/lists/[^\n]*_`, // a list of packages has that in its name
			`99mmdebstrap`, `/var/log/[^\n]*\.log\n`, `/usr/share/man/man1/.`, `/etc/dpkg/dpkg\.cfg\.d/.`,
		} {
			if found := regexp.MustCompile(gone).FindString(list); found != "" {
				t.Errorf("the image has %q", found)
			}
		}
	}
	is.Equal(digests[0], digests[1])
}

// names lists what is in a layout's one layer.
func names(t *testing.T, dir string) string {
	t.Helper()
	var index v1.IndexManifest
	var m v1.Manifest
	read(t, filepath.Join(dir, "index.json"), &index)
	read(t, filepath.Join(dir, "blobs/sha256", index.Manifests[0].Digest.Hex), &m)
	out, err := osexec.CommandContext(t.Context(), "tar", "--zstd", "-tf", filepath.Join(dir, "blobs/sha256", m.Layers[0].Digest.Hex)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
