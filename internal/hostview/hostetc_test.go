package hostview_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanzoai/sandbox/internal/hostview"
)

// fake makes the files of a host in a folder: a name that ends in "/" is a directory, content that starts
// with "-> " is a link.
func fake(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		put(t, filepath.Join(root, name), strings.HasSuffix(name, "/"), content)
	}
	return root
}

func put(t testing.TB, name string, dir bool, content string) {
	t.Helper()
	parent := filepath.Dir(name)
	if dir {
		parent = name
	}
	err := os.MkdirAll(parent, 0o755)
	if target, ok := strings.CutPrefix(content, "-> "); ok {
		err = os.Symlink(target, name)
	} else if !dir && err == nil {
		err = os.WriteFile(name, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// etcOf builds a view of a fake host and lists its /etc.
func etcOf(t *testing.T, root string) map[string]fs.FileInfo {
	t.Helper()
	view, err := hostview.BuildFrom(t.TempDir(), root, nil)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]fs.FileInfo{}
	err = fs.WalkDir(os.DirFS(view.Root), "etc", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		found[name] = info
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCopyLeavesOutWhatIsNotForAll(t *testing.T) {
	root := fake(t, map[string]string{
		"etc/fonts/fonts.conf":         "fonts",
		"etc/fonts/secret":             "s",
		"etc/fonts/setuid":             "program",
		"etc/fonts/closed/readable":    "s",
		"etc/fonts/unlistable/a":       "s",
		"etc/ssl/certs/ca.pem":         "ca",
		"etc/ssl/private/key.pem":      "s",
		"etc/ssl/openssl.cnf":          "cnf",
		"etc/java-17-openjdk/net.conf": "net",
		"etc/java-17-openjdk/jmx.pass": "s",
		"etc/shadow":                   "s",
		"etc/npmrc":                    "s",
		"etc/bash.bashrc":              "s",
		"etc/pythonrc":                 "s",
		"etc/python3-site/token":       "s",
		"etc/python3.12/debian_config": "py",
		"etc/perl/private":             "-> /etc/shadow",
		"etc/magic":                    "s",
	})
	etc := filepath.Join(root, "etc")
	for name, mode := range map[string]fs.FileMode{
		"fonts/secret": 0o600, "fonts/setuid": fs.ModeSetuid | fs.ModeSetgid | 0o755, "fonts/closed": 0o750,
		"fonts/unlistable": 0o751, "java-17-openjdk/jmx.pass": 0o640, "magic": 0o660,
	} {
		if err := os.Chmod(filepath.Join(etc, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	plantOddFiles(t, filepath.Join(etc, "fonts"))

	found := etcOf(t, root)
	for _, name := range []string{
		"etc/fonts/fonts.conf", "etc/ssl/certs/ca.pem", "etc/ssl/openssl.cnf", "etc/java-17-openjdk/net.conf",
		"etc/python3.12/debian_config", "etc/fonts/setuid",
	} {
		if found[name] == nil || found[name].Size() == 0 {
			t.Errorf("%s is not copied", name)
		}
	}
	if mode := found["etc/fonts/setuid"].Mode(); mode != 0o755 {
		t.Errorf("the copy of a setuid file is %v", mode)
	}
	for _, name := range []string{
		"etc/fonts/secret", "etc/fonts/closed", "etc/fonts/unlistable", "etc/fonts/fifo", "etc/fonts/socket",
		"etc/fonts/device", "etc/ssl/private", "etc/java-17-openjdk/jmx.pass", "etc/shadow", "etc/npmrc",
		"etc/bash.bashrc", "etc/pythonrc", "etc/python3-site", "etc/magic",
	} {
		if found[name] != nil {
			t.Errorf("%s is in the view", name)
		}
	}
}

// plantOddFiles makes a fifo, a socket and, where it is allowed, a device, for every user to read.
func plantOddFiles(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	if err := syscall.Mknod(filepath.Join(dir, "device"), syscall.S_IFCHR|0o666, 1<<8|5); err != nil {
		t.Logf("no device: %v", err)
	}
}

func TestCopyKeepsLinksAsText(t *testing.T) {
	root := fake(t, map[string]string{
		"etc/alternatives/awk":    "-> /usr/bin/mawk",
		"etc/alternatives/secret": "-> /etc/shadow",
		"etc/alternatives/up":     "-> ../../../../../../etc/shadow",
		"etc/alternatives/a":      "-> b",
		"etc/alternatives/b":      "-> a",
		"etc/localtime":           "-> /usr/share/zoneinfo/Etc/UTC",
		"etc/php":                 "-> /root",
		"etc/perl":                "-> apt",
		"etc/apt/auth.conf":       "s",
		"etc/ssl":                 "-> private",
		"etc/private/certs/key":   "s",
		"etc/R/lib":               "-> ../private",
	})
	view, err := hostview.BuildFrom(t.TempDir(), root, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"alternatives/awk": "/usr/bin/mawk", "alternatives/secret": "/etc/shadow",
		"alternatives/up": "../../../../../../etc/shadow", "alternatives/a": "b", "alternatives/b": "a",
		"localtime": "/usr/share/zoneinfo/Etc/UTC", "php": "/root", "perl": "apt", "R/lib": "../private",
	} {
		if got, err := os.Readlink(filepath.Join(view.Root, "etc", name)); got != want {
			t.Errorf("%s -> %q (%v), want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"apt", "ssl", "private", "shadow"} {
		if info, err := os.Lstat(filepath.Join(view.Root, "etc", name)); err == nil {
			t.Errorf("%s is in the view: %v", name, info.Mode())
		}
	}
}

func TestCopyIsBounded(t *testing.T) {
	for _, test := range []struct {
		name  string
		names string // a pattern for the number of a file
		count int
		size  int64
		want  string // what the error names
	}{
		{"one large file", "etc/fonts/huge%d", 1, 4<<20 + 1, "fonts/huge0: larger than"},
		{"many files", "etc/fonts/big%d", 9, 4 << 20, "fonts/big8: more than 33554432 bytes"},
		{"endless links", "etc/alternatives/%05d", 20_001, -1, "alternatives/19999: more than 20000 entries"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fake(t, map[string]string{"etc/fonts/": "", "etc/alternatives/": ""})
			for i := range test.count {
				name := filepath.Join(root, fmt.Sprintf(test.names, i))
				if test.size < 0 {
					put(t, name, false, "-> x")
					continue
				}
				put(t, name, false, "")
				if err := os.Truncate(name, test.size); err != nil {
					t.Fatal(err)
				}
			}
			dir := t.TempDir()
			_, err := hostview.BuildFrom(dir, root, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if names := list(t, dir); len(names) != 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

func TestMadeEtcSaysNothingOfTheHost(t *testing.T) {
	root := fake(t, map[string]string{
		"etc/passwd": "admin", "etc/group": "admin", "etc/hosts": "10.0.0.1 payroll", "etc/hostname": "prod",
		"etc/resolv.conf": "search corp", "etc/nsswitch.conf": "sss", "etc/profile": "TOKEN=1",
		"usr/bin/sh": "", "usr/bin/bash": "", "bin": "-> usr/bin",
	})
	view, err := hostview.BuildFrom(t.TempDir(), root, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"passwd": "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\n", "group": "sandbox:x:1000:\n",
		"hosts": "127.0.0.1 localhost\n", "hostname": "sandbox\n", "nsswitch.conf": "passwd: files\n",
		"profile": "umask 022\n", "shells": "/bin/sh\n/bin/bash\n", "resolv.conf": "",
	} {
		got, err := os.ReadFile(filepath.Join(view.Root, "etc", name))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s is %q (%v), want %q in it", name, got, err, want)
		}
		for _, host := range []string{"admin", "payroll", "prod", "corp", "sss", "TOKEN"} {
			if strings.Contains(string(got), host) {
				t.Errorf("%s says %q", name, host)
			}
		}
	}
}

// TestCopyHoldsToWhatItSaw swaps a file for one that only root may read, over and over, while it is copied.
func TestCopyHoldsToWhatItSaw(t *testing.T) {
	root := fake(t, map[string]string{"etc/magic": "public", "secret": "secret"})
	secret, magic := filepath.Join(root, "secret"), filepath.Join(root, "etc/magic")
	if err := os.Chmod(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error)
	go func() { done <- swap(stop, magic, secret, filepath.Join(root, "etc/spare")) }()
	for range 50 {
		view, err := hostview.BuildFrom(t.TempDir(), root, nil)
		if err != nil {
			continue // it never stood still: to give up is right
		}
		if got, _ := os.ReadFile(filepath.Join(view.Root, "etc/magic")); string(got) == "secret" {
			t.Errorf("a file that only root may read was copied")
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func swap(stop chan struct{}, name, secret, spare string) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := os.Link(secret, spare); err != nil {
			return err
		}
		if err := os.Rename(spare, name); err != nil {
			return err
		}
		if err := os.WriteFile(spare, []byte("public"), 0o644); err != nil {
			return err
		}
		if err := os.Rename(spare, name); err != nil {
			return err
		}
	}
}
