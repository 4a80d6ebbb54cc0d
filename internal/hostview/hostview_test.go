package hostview_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/internal/hostview"
)

// dirVar tells a copy of the test binary to build a view there and print its root.
const dirVar = "HOSTVIEW_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVar); dir != "" {
		view, err := hostview.Build(dir)
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString(view.Root)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// locate returns where on this machine a path of the view comes from. Links are followed as a guest would
// follow them, one element at a time and never out of the view.
func locate(view hostview.View, name string) (string, bool) {
	at := "/"
	rest := strings.Split(strings.Trim(name, "/"), "/")
	for hops := 0; len(rest) > 0; rest = rest[1:] {
		next := filepath.Join(at, rest[0])
		source := sourceOf(view, next)
		info, err := os.Lstat(source)
		if err != nil {
			return source, false
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if hops++; hops > 40 {
			return source, false
		}
		text, _ := os.Readlink(source)
		if filepath.IsAbs(text) {
			at = "/"
		}
		rest = append([]string{""}, append(strings.Split(text, "/"), rest[1:]...)...)
	}
	return sourceOf(view, at), true
}

// sourceOf returns the host's path for a path of the view without links in it.
func sourceOf(view hostview.View, name string) string {
	for _, b := range view.Binds {
		if name == b.Target || strings.HasPrefix(name, b.Target+"/") {
			return b.Source + strings.TrimPrefix(name, b.Target)
		}
	}
	return filepath.Join(view.Root, name)
}

func mustBuild(t *testing.T) hostview.View {
	t.Helper()
	view, err := hostview.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func TestViewHasPrograms(t *testing.T) {
	view := mustBuild(t)
	for _, name := range []string{"/bin/sh", "/usr/bin/env", "/etc/passwd", "/etc/resolv.conf", "/usr/share"} {
		if source, ok := locate(view, name); !ok {
			t.Errorf("%s is not in the view (%s)", name, source)
		}
	}
	// What this machine has and allows, its view has too.
	for _, name := range []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/localtime", "/etc/ld.so.cache", "/etc/os-release",
		"/usr/local/go/bin/go", "/usr/bin/which", "/usr/bin/java", "/usr/bin/git", "/usr/bin/awk",
	} {
		if _, err := os.Stat(name); err != nil {
			continue
		}
		if source, ok := locate(view, name); !ok {
			t.Errorf("%s is not in the view (%s)", name, source)
		}
	}
}

func TestViewHidesTheRest(t *testing.T) {
	view := mustBuild(t)
	for _, name := range []string{
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/machine-id", "/etc/npmrc", "/etc/pip.conf",
		"/etc/gitconfig", "/etc/apt", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers", "/etc/environment",
		"/etc/bash.bashrc", "/etc/profile.d", "/usr/local/etc", "/usr/etc", "/usr/local/bin/docker",
		"/usr/src", "/boot", "/media", "/lost+found", "/.dockerenv", "/old_root",
	} {
		if source, ok := locate(view, name); ok {
			t.Errorf("%s is in the view, from %s", name, source)
		}
	}
	for name, want := range map[string][]string{
		"/": {
			"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "mnt", "opt", "proc",
			"root", "run", "sbin", "srv", "sys", "tmp", "usr", "var", "work",
		},
		"/root": nil, "/run": nil, "/home": {"sandbox"}, "/home/sandbox": nil, "/srv": nil, "/opt": {"rust"},
		"/var": {"cache", "lib", "log", "tmp"}, "/var/lib": nil, "/var/cache": nil, "/var/log": nil, "/var/tmp": nil,
		"/tmp": nil, "/dev": nil, "/proc": nil, "/mnt": {"data"}, "/mnt/data": nil, "/work": nil,
		"/usr/local": {"bin", "go", "include", "lib", "sbin", "share"},
	} {
		for _, got := range list(t, filepath.Join(view.Root, name)) {
			if !slices.Contains(want, got) {
				t.Errorf("%s has %s in the view", name, got)
			}
		}
	}
	for _, b := range view.Binds {
		hidden := []string{"/etc", "/usr", "/usr/local", "/usr/local/bin", "/root", "/home", "/var", "/run", "/opt"}
		if slices.Contains(hidden, b.Source) || slices.Contains(hidden, b.Target) {
			t.Errorf("%s is shown at %s", b.Source, b.Target)
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	var names []string
	for _, d := range entries {
		names = append(names, d.Name())
	}
	return names
}

func TestSkeletonModes(t *testing.T) {
	old := syscall.Umask(0o077) // a daemon's umask must not show
	defer syscall.Umask(old)
	view := mustBuild(t)
	special := map[string]fs.FileMode{
		"tmp": fs.ModeSticky | 0o777, "var/tmp": fs.ModeSticky | 0o777, "root": 0o700,
	}
	err := filepath.WalkDir(view.Root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Geteuid() || os.Geteuid() == 0 && st.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
		rel, _ := filepath.Rel(view.Root, name)
		mode := info.Mode()
		switch want, ok := special[rel]; {
		case mode&fs.ModeSymlink != 0:
		case ok && mode != fs.ModeDir|want:
			t.Errorf("%s is %v", name, mode)
		case !ok && mode.IsDir() && mode != fs.ModeDir|0o755:
			t.Errorf("%s is %v", name, mode)
		case mode.IsRegular() && mode != 0o644 && mode != 0o755:
			t.Errorf("%s is %v", name, mode)
		case !mode.IsDir() && !mode.IsRegular():
			t.Errorf("%s is %v", name, mode)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBindTargetsExist(t *testing.T) {
	view := mustBuild(t)
	if !slices.IsSortedFunc(view.Binds, func(a, b hostview.Bind) int { return strings.Compare(a.Target, b.Target) }) {
		t.Errorf("not sorted: %v", view.Binds)
	}
	for _, b := range view.Binds {
		source, err := os.Lstat(b.Source)
		if err != nil {
			t.Error(err)
			continue
		}
		target, err := os.Lstat(filepath.Join(view.Root, b.Target))
		if err != nil || source.Mode().Type() != target.Mode().Type() {
			t.Errorf("%v: %v, %v", b, target, err)
		}
		if !filepath.IsAbs(b.Source) || !filepath.IsAbs(b.Target) {
			t.Errorf("%v is not absolute", b)
		}
	}
}

func TestSecondBuildFindsTheFirst(t *testing.T) {
	dir := t.TempDir()
	first, err := hostview.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.Stat(first.Root)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	second, err := hostview.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("second build: %v", time.Since(start))
	found, err := os.Stat(second.Root)
	if err != nil || second.Root != first.Root || !os.SameFile(made, found) {
		t.Errorf("root %s, then %s (%v)", first.Root, second.Root, err)
	}
	if !slices.Equal(first.Binds, second.Binds) || !slices.Equal(first.Env, second.Env) {
		t.Errorf("%v, then %v", first, second)
	}
	if names := list(t, dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestConcurrentBuildsAgree(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := make([]string, 4)
	errs := make([]error, len(out))
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			if i == 0 { // also within one process
				view, err := hostview.Build(dir)
				out[i], errs[i] = view.Root, err
				return
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), dirVar+"="+dir)
			text, err := cmd.CombinedOutput()
			out[i], errs[i] = string(text), err
		})
	}
	wg.Wait()
	for i := range out {
		if errs[i] != nil || out[i] != out[0] {
			t.Errorf("build %d: %q, %v; want %q", i, out[i], errs[i], out[0])
		}
	}
	if names := list(t, dir); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func BenchmarkBuildAgain(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		if _, err := hostview.Build(dir); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBuildFirst(b *testing.B) {
	for b.Loop() {
		if _, err := hostview.Build(b.TempDir()); err != nil {
			b.Fatal(err)
		}
	}
}
