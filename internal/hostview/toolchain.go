package hostview

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// addGo shows a Go installation from the official archive.
func addGo(p *plan, h host) error {
	const dir = "/usr/local/go"
	// More than bin/go is asked for, lest a link to a GOPATH with a go command in it pass for one.
	if !h.isProgram(dir+"/bin/go") || !h.isDir(dir+"/src/runtime") || !h.isDir(dir+"/pkg/tool") {
		return nil
	}
	p.tools = append(p.tools, dir+"/bin")
	return p.addBind(h, dir, dir)
}

// addRust shows the toolchain behind a rustup installation, never the home that rustup keeps it in: the
// programs in PATH are shims that need that home.
func addRust(p *plan, h host) error {
	for _, home := range []string{h.getenv("RUSTUP_HOME"), "/usr/local/rustup", "/root/.rustup"} {
		if !filepath.IsAbs(home) {
			continue
		}
		name := rustToolchain(h, home)
		if name == "" {
			continue
		}
		p.tools = append(p.tools, "/opt/rust/bin")
		return p.addBind(h, path.Join(home, "toolchains", name), "/opt/rust")
	}
	return nil
}

var rustDefault = regexp.MustCompile(`(?m)^default_toolchain\s*=\s*"([A-Za-z0-9_.-]+)"`)

// rustToolchain returns the name of the default toolchain in a rustup home, or of the only one; "" if none.
func rustToolchain(h host, home string) string {
	dir := path.Join(home, "toolchains")
	var found []string
	for _, name := range h.names(dir) {
		if isRust(h, path.Join(dir, name)) {
			found = append(found, name)
		}
	}
	settings, _ := os.ReadFile(h.path(path.Join(home, "settings.toml"))) // without, there is no default
	if m := rustDefault.FindSubmatch(settings); m != nil {
		for _, name := range found {
			// A default may be short, "stable", for the folder "stable-x86_64-unknown-linux-gnu".
			if name == string(m[1]) || strings.HasPrefix(name, string(m[1])+"-") {
				return name
			}
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return ""
}

// isRust reports whether dir is a toolchain that rustup unpacked. One linked in from elsewhere is not.
func isRust(h host, dir string) bool {
	return h.isDir(dir) && h.isDir(dir+"/bin") && h.isProgram(dir+"/bin/rustc") && h.isDir(dir+"/lib/rustlib")
}

// addNode shows a Node.js installed in /usr/local, as in its Docker image.
func addNode(p *plan, h host) error {
	if !h.isProgram("/usr/local/bin/node") {
		return nil
	}
	if err := p.addBind(h, "/usr/local/bin/node", "/usr/local/bin/node"); err != nil {
		return err
	}
	const modules = "/usr/local/lib/node_modules"
	if !h.isDir(modules) {
		return nil
	}
	for name, target := range map[string]string{
		"npm":      "../lib/node_modules/npm/bin/npm-cli.js",
		"npx":      "../lib/node_modules/npm/bin/npx-cli.js",
		"corepack": "../lib/node_modules/corepack/dist/corepack.js",
	} {
		if h.link("/usr/local/bin/"+name) == target {
			p.addLink("/usr/local/bin/"+name, target)
		}
	}
	return p.addBind(h, modules, modules)
}

var (
	pythonProgram = regexp.MustCompile(`^python3\.[0-9]+$`)
	pythonLink    = regexp.MustCompile(`^python3?$`)
	pythonTarget  = regexp.MustCompile(`^python3(\.[0-9]+)?$`)
	pythonLib     = regexp.MustCompile(`^libpython3(\.[0-9]+)?\.so(\.[0-9]+)*$`)
)

// addPython shows each Python installed in /usr/local, as in its Docker image. The libraries of a version
// that has no program there belong to the system's Python, and stay out with the rest of /usr/local.
func addPython(p *plan, h host) error {
	found := false
	for _, name := range h.names("/usr/local/bin") {
		program, lib := "/usr/local/bin/"+name, "/usr/local/lib/"+name
		if !pythonProgram.MatchString(name) || !h.isProgram(program) || !h.isDir(lib) {
			continue
		}
		found = true
		for _, name := range []string{program, lib} {
			if err := p.addBind(h, name, name); err != nil {
				return err
			}
		}
	}
	if !found {
		return nil
	}
	addPythonLinks(p, h)
	return addPythonLibs(p, h)
}

// addPythonLinks keeps the short names: python, python3.
func addPythonLinks(p *plan, h host) {
	for _, name := range h.names("/usr/local/bin") {
		text := h.link("/usr/local/bin/" + name)
		if pythonLink.MatchString(name) && pythonTarget.MatchString(text) {
			p.addLink("/usr/local/bin/"+name, text)
		}
	}
}

func addPythonLibs(p *plan, h host) error {
	for _, base := range h.names("/usr/local/lib") {
		name := "/usr/local/lib/" + base
		if !pythonLib.MatchString(base) {
			continue
		}
		if text := h.link(name); pythonLib.MatchString(text) {
			p.addLink(name, text)
		} else if h.isProgram(name) {
			if err := p.addBind(h, name, name); err != nil {
				return err
			}
		}
	}
	return nil
}
