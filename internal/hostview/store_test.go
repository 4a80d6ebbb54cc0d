package hostview_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hanzoai/sandbox/internal/hostview"
)

var smallHost = map[string]string{
	"usr/bin/sh": elf, "etc/magic": "magic", "etc/alternatives/awk": "-> /usr/bin/mawk", "etc/localtime": "-> UTC",
}

func buildFrom(t *testing.T, dir, root string) hostview.View {
	t.Helper()
	view, err := hostview.BuildFrom(dir, root, nil)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func TestChangedHostGivesNewRoot(t *testing.T) {
	root := fake(t, smallHost)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	info, err := os.Stat(at("etc/magic"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{buildFrom(t, dir, root).Root: true}
	for _, change := range []struct {
		name string
		make func() error
	}{
		{"content, with size and time kept", func() error {
			if err := os.WriteFile(at("etc/magic"), []byte("MAGIC"), 0o644); err != nil {
				return err
			}
			return os.Chtimes(at("etc/magic"), info.ModTime(), info.ModTime())
		}},
		{"mode", func() error { return os.Chmod(at("etc/magic"), 0o600) }},
		{"a new file", func() error { return os.WriteFile(at("etc/timezone"), nil, 0o644) }},
		{"a replaced link", func() error {
			if err := os.Symlink("/usr/bin/gawk", at("etc/alternatives/new")); err != nil {
				return err
			}
			return os.Rename(at("etc/alternatives/new"), at("etc/alternatives/awk"))
		}},
		{"a replaced link in /etc", func() error {
			if err := os.Remove(at("etc/localtime")); err != nil {
				return err
			}
			return os.Symlink("GMT", at("etc/localtime"))
		}},
		{"a new bind", func() error { return os.Mkdir(at("usr/share"), 0o755) }},
	} {
		if err := change.make(); err != nil {
			t.Fatal(err)
		}
		view := buildFrom(t, dir, root)
		if seen[view.Root] {
			t.Errorf("%s: the root is as before", change.name)
		}
		if again := buildFrom(t, dir, root); again.Root != view.Root {
			t.Errorf("%s: root %s, then %s", change.name, view.Root, again.Root)
		}
		seen[view.Root] = true
	}
	if err := os.WriteFile(at("etc/shadow"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if view := buildFrom(t, dir, root); !seen[view.Root] {
		t.Errorf("a file out of the view changed its root")
	}
	for name := range seen {
		if _, err := os.Stat(filepath.Join(name, "etc/passwd")); err != nil {
			t.Errorf("an old root is gone: %v", err)
		}
	}
}

func TestDamageIsRepaired(t *testing.T) {
	root, dir := fake(t, smallHost), t.TempDir()
	view := buildFrom(t, dir, root)
	at := func(name string) string { return filepath.Join(view.Root, name) }
	for what, damage := range map[string]func() error{
		"a lost file":      func() error { return os.Remove(at("etc/passwd")) },
		"a short file":     func() error { return os.Truncate(at("etc/magic"), 0) },
		"a lost link":      func() error { return os.Remove(at("etc/alternatives/awk")) },
		"a lost directory": func() error { return os.Remove(at("tmp")) },
		"a changed mode":   func() error { return os.Chmod(at("root"), 0o755) },
		"an open root":     func() error { return os.Chmod(view.Root, 0o777) },
		"no root":          func() error { return os.RemoveAll(view.Root) },
		"a link for a file": func() error {
			return os.Rename(at("etc/alternatives/awk"), at("etc/hosts"))
		},
	} {
		if err := damage(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if again := buildFrom(t, dir, root); again.Root != view.Root {
			t.Errorf("%s: root %s, was %s", what, again.Root, view.Root)
		}
		for name, size := range map[string]int64{"etc/magic": 5, "etc/alternatives/awk": 13, "etc/hosts": 79} {
			if info, err := os.Lstat(at(name)); err != nil || info.Size() != size {
				t.Errorf("%s: %s: %v, %v", what, name, info, err)
			}
		}
		if info, err := os.Lstat(at("root")); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", what, info, err)
		}
	}
}

func TestFilesOfTheRuntimeAreNoDamage(t *testing.T) {
	root, dir := fake(t, smallHost), t.TempDir()
	view := buildFrom(t, dir, root)
	extra := filepath.Join(view.Root, ".gvisor.filestore.x")
	if err := os.WriteFile(extra, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	buildFrom(t, dir, root)
	if _, err := os.Stat(extra); err != nil {
		t.Error(err)
	}
}

func TestForeignFolderIsRefused(t *testing.T) {
	root := fake(t, smallHost)
	dir := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, err := hostview.BuildFrom(dir, root, nil); err == nil || !strings.Contains(err.Error(), "writable by others") {
		t.Errorf("error %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("to give a folder away one must be root")
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := hostview.BuildFrom(dir, root, nil); err == nil || !strings.Contains(err.Error(), "belongs to user 1000") {
		t.Errorf("error %v", err)
	}
}

func TestPrune(t *testing.T) {
	root, dir := fake(t, smallHost), t.TempDir()
	first := buildFrom(t, dir, root)
	put(t, filepath.Join(root, "etc/timezone"), false, "Etc/UTC")
	second := buildFrom(t, dir, root)
	for _, name := range []string{".new-1/etc/", ".old-1/x/", "notes/", "0123/"} {
		put(t, filepath.Join(dir, name), true, "")
	}
	keep := map[string]bool{filepath.Base(second.Root): true}
	for range 2 {
		if err := hostview.Prune(dir, keep); err != nil {
			t.Fatal(err)
		}
		want := []string{"0123", filepath.Base(second.Root), "notes"}
		slices.Sort(want)
		if got := list(t, dir); !slices.Equal(got, want) {
			t.Errorf("left %v, want %v", got, want)
		}
	}
	if _, err := os.Stat(first.Root); err == nil {
		t.Errorf("%s is still there", first.Root)
	}
	if err := hostview.Prune(filepath.Join(dir, "none"), nil); err != nil {
		t.Error(err)
	}
}

// TestPruneStaysOutOfMounts mounts a folder where a runtime would mount the host's /usr/bin.
func TestPruneStaysOutOfMounts(t *testing.T) {
	root, dir := fake(t, smallHost), filepath.Join(t.TempDir(), "with space")
	view := buildFrom(t, dir, root)
	target := filepath.Join(view.Root, "usr/bin")
	if err := syscall.Mount(view.Binds[0].Source, target, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(target, syscall.MNT_DETACH) })
	if again := buildFrom(t, dir, root); again.Root != view.Root {
		t.Errorf("a mounted root %s became %s", view.Root, again.Root)
	}
	if err := hostview.Prune(dir, nil); err == nil || !strings.Contains(err.Error(), target+" is mounted") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/sh")); err != nil {
		t.Errorf("the host's files are gone: %v", err)
	}
	if err := syscall.Unmount(target, 0); err != nil {
		t.Fatal(err)
	}
	if err := hostview.Prune(dir, nil); err != nil {
		t.Error(err)
	}
}
