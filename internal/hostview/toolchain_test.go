package hostview_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hanzoai/sandbox/internal/hostview"
)

const elf = "\x7fELF..." // what a compiled program starts with

// rust is the least that makes a toolchain of a folder.
func rust(dir string) map[string]string {
	return map[string]string{dir + "/bin/rustc": elf, dir + "/lib/rustlib/": ""}
}

func merge(all ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, m := range all {
		maps.Copy(merged, m)
	}
	return merged
}

func TestBinds(t *testing.T) {
	const stable = "root/.rustup/toolchains/stable-x86_64"
	nightly := rust("root/.rustup/toolchains/nightly-x86_64")
	for _, test := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		want  string // "target<source ..."; the source is left out when it is the same
	}{
		{
			"merged /usr",
			map[string]string{"usr/bin/sh": elf, "usr/lib/": "", "bin": "-> usr/bin", "usr/etc/npmrc": "s"},
			nil,
			"/usr/bin /usr/lib",
		},
		{
			"separate /usr",
			map[string]string{"usr/bin/sh": elf, "bin/sh": elf, "lib/": "", "lib64": "-> /root"},
			nil,
			"/bin /lib /usr/bin",
		},
		{"a linked /usr/bin", map[string]string{"usr/bin": "-> /root", "usr/share": "-> ../root"}, nil, ""},
		{
			"go",
			map[string]string{"usr/local/go/bin/go": elf, "usr/local/go/src/runtime/": "", "usr/local/go/pkg/tool/": ""},
			nil,
			"/usr/local/go",
		},
		{"a linked go", map[string]string{
			"usr/local/go": "-> go1.26", "usr/local/go1.26/bin/go": elf, "usr/local/go1.26/src/runtime/": "",
			"usr/local/go1.26/pkg/tool/": "",
		}, nil, "/usr/local/go</usr/local/go1.26"},
		{"a GOPATH is no go", map[string]string{"usr/local/go/bin/go": elf, "usr/local/go/src/example.com/": ""}, nil, ""},
		{"the only rust", rust(stable), nil, "/opt/rust</" + stable},
		{
			"the default rust", merge(rust(stable), nightly,
				map[string]string{"root/.rustup/settings.toml": "version = \"12\"\ndefault_toolchain = \"stable-x86_64\"\n"}), nil,
			"/opt/rust</" + stable,
		},
		{"the default rust, short", merge(rust(stable), nightly,
			map[string]string{"root/.rustup/settings.toml": "default_toolchain = \"stable\"\n"}), nil, "/opt/rust</" + stable},
		{"two rusts and no default", merge(rust(stable), nightly), nil, ""},
		{"a default out of its folder", merge(rust(stable), nightly,
			map[string]string{"root/.rustup/settings.toml": "default_toolchain = \"../..\"\n"}), nil, ""},
		{"a linked rust", merge(rust("root/src/stage1"),
			map[string]string{"root/.rustup/toolchains/dev": "-> ../../src/stage1"}), nil, ""},
		{
			"RUSTUP_HOME", merge(rust("rustup/toolchains/1.90"), rust(stable)),
			map[string]string{"RUSTUP_HOME": "/rustup"},
			"/opt/rust</rustup/toolchains/1.90",
		},
		{"a relative RUSTUP_HOME", rust("rustup/toolchains/1.90"), map[string]string{"RUSTUP_HOME": "rustup"}, ""},
		{
			"node",
			map[string]string{"usr/local/bin/node": elf, "usr/local/lib/node_modules/npm/": "", "usr/local/etc/npmrc": "s"},
			nil,
			"/usr/local/bin/node /usr/local/lib/node_modules",
		},
		{"a node that is a script", map[string]string{"usr/local/bin/node": "#!/bin/sh\nTOKEN=1", "usr/local/lib/node_modules/": ""}, nil, ""},
		{"a node that is a link", map[string]string{"usr/local/bin/node": "-> /root/.nvm/node", "usr/local/lib/node_modules/": ""}, nil, ""},
		{"python", map[string]string{
			"usr/local/bin/python3.12": elf, "usr/local/lib/python3.12/": "", "usr/local/lib/libpython3.12.so.1.0": elf,
			"usr/local/lib/libpython3.12.so": "-> libpython3.12.so.1.0", "usr/local/lib/libother.so": elf,
			"usr/local/bin/python3": "-> python3.12", "usr/local/bin/python3-admin": elf, "usr/local/lib/python3.11/": "",
		}, nil, "/usr/local/bin/python3.12 /usr/local/lib/libpython3.12.so.1.0 /usr/local/lib/python3.12"},
		{"a pyenv shim", map[string]string{
			"usr/local/bin/python3.12": "#!/bin/sh\nexec pyenv", "usr/local/lib/python3.12/": "",
			"usr/local/bin/python3": "-> /root/.pyenv/shims/python3",
		}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fake(t, test.files)
			view, err := hostview.BuildFrom(t.TempDir(), root, test.env)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range view.Binds {
				text := b.Target
				if source := strings.TrimPrefix(b.Source, root); source != b.Target {
					text += "<" + source
				}
				got = append(got, text)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("binds %v, want %s", got, test.want)
			}
			for _, tool := range []string{"/opt/rust", "/usr/local/go"} {
				inPath := strings.Contains(view.Env[0], tool+"/bin:")
				if inPath != slices.ContainsFunc(view.Binds, func(b hostview.Bind) bool { return b.Target == tool }) {
					t.Errorf("%s is bound or in PATH, not both: %v", tool, view)
				}
			}
		})
	}
}

func TestKnownLinksAreKept(t *testing.T) {
	root := fake(t, map[string]string{
		"bin": "-> usr/bin", "sbin": "-> usr/bin", "lib": "-> /usr/lib", "lib64": "-> ../root", "usr/sbin": "-> bin",
		"usr/bin/sh": elf, "secrets": "-> root",
		"usr/local/bin/python3.12": elf, "usr/local/lib/python3.12/": "", "usr/local/bin/python3": "-> python3.12",
		"usr/local/bin/python": "-> python3", "usr/local/bin/node": elf, "usr/local/lib/node_modules/npm/": "",
		"usr/local/bin/npm": "-> ../lib/node_modules/npm/bin/npm-cli.js", "usr/local/bin/npx": "-> /root/npx",
		"usr/local/bin/deploy": "-> ../lib/node_modules/deploy/cli.js",
	})
	view, err := hostview.BuildFrom(t.TempDir(), root, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"bin": "usr/bin", "sbin": "usr/bin", "lib": "", "lib64": "", "usr/sbin": "bin", "secrets": "",
		"usr/local/bin/python3": "python3.12", "usr/local/bin/python": "python3",
		"usr/local/bin/npm": "../lib/node_modules/npm/bin/npm-cli.js", "usr/local/bin/npx": "",
		"usr/local/bin/deploy": "",
	} {
		if got, _ := os.Readlink(filepath.Join(view.Root, name)); got != want {
			t.Errorf("%s -> %q, want %q", name, got, want)
		}
	}
}
