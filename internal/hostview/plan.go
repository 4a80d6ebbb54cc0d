package hostview

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// entry is one file of the skeleton.
type entry struct {
	name string      // slash-separated, relative to the root
	mode fs.FileMode // type and permissions
	text string      // of a file made up here its content, of such a link its target

	// Of what is copied from the host's /etc: its name there, and what it was when the plan was made, which
	// is not known of a link.
	from string
	info fs.FileInfo

	bind bool // a mount point: something of the host lies over it
}

// size returns how long a file is in the skeleton.
func (e entry) size() int64 {
	if e.from != "" {
		return e.info.Size()
	}
	return int64(len(e.text))
}

// plan describes a view completely but for the content of the copied files, which their size and times
// stand for. It is also the manifest that a finished skeleton is checked against.
type plan struct {
	etc     string // the host's /etc
	entries map[string]entry
	binds   []Bind
	tools   []string // toolchain folders for PATH
}

func newPlan(etc string) *plan {
	return &plan{etc: etc, entries: make(map[string]entry, 1024)} // about what a machine has
}

// add plans an entry and the directories above it. The first to plan a name decides what it is.
func (p *plan) add(e entry) {
	e.name = strings.TrimPrefix(path.Clean(e.name), "/")
	if _, ok := p.entries[e.name]; ok {
		return
	}
	if parent := path.Dir(e.name); parent != "." {
		p.addDir(parent, 0o755)
	}
	p.entries[e.name] = e
}

func (p *plan) addDir(name string, perm fs.FileMode) {
	p.add(entry{name: name, mode: fs.ModeDir | perm})
}

func (p *plan) addLink(name, target string) {
	p.add(entry{name: name, mode: fs.ModeSymlink | 0o777, text: target})
}

func (p *plan) addFile(name, content string) {
	p.add(entry{name: name, mode: 0o644, text: content})
}

// addBind plans to show a directory or file of the host at target.
func (p *plan) addBind(h host, name, target string) error {
	source, info, err := h.resolve(name)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info.IsDir() {
		mode = fs.ModeDir | 0o755
	}
	p.add(entry{name: target, mode: mode, bind: true})
	p.binds = append(p.binds, Bind{Source: source, Target: target})
	slices.SortFunc(p.binds, func(a, b Bind) int { return cmp.Compare(a.Target, b.Target) })
	return nil
}

// addMountPoints plans the directories that a runtime mounts something on, or that programs expect.
func (p *plan) addMountPoints() {
	for _, name := range []string{
		"proc", "sys/fs/cgroup", "dev", "run", "mnt/data", "work", "home/sandbox", "opt", "srv",
		"var/lib", "var/cache", "var/log",
		"usr/local/bin", "usr/local/sbin", "usr/local/lib", "usr/local/share", "usr/local/include",
	} {
		p.addDir(name, 0o755)
	}
	p.addDir("tmp", 0o777|fs.ModeSticky)
	p.addDir("var/tmp", 0o777|fs.ModeSticky)
	p.addDir("root", 0o700)
}

// path is the guest's PATH. Toolchains go first, as they do where they are installed by hand.
func (p *plan) path() string {
	dirs := append(slices.Clone(p.tools),
		"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
	return strings.Join(dirs, ":")
}

func (p *plan) env() []string {
	return []string{"PATH=" + p.path()}
}

// sorted returns the entries with parents before their children.
func (p *plan) sorted() []entry {
	names := slices.Sorted(maps.Keys(p.entries))
	sorted := make([]entry, len(names))
	for i, name := range names {
		sorted[i] = p.entries[name]
	}
	return sorted
}

// digest names the plan: equal digests mean equal views.
func (p *plan) digest() string {
	b := make([]byte, 0, 64*len(p.entries))
	b = fmt.Appendf(b, "hostview 1 %q %q\n", p.binds, p.env())
	for _, e := range p.sorted() {
		b = strconv.AppendQuote(b, e.name)
		b = strconv.AppendQuote(b, e.text)
		b = strconv.AppendBool(b, e.bind)
		numbers := []int64{int64(e.mode)}
		if e.info != nil {
			// Packages are built with the times of their files pinned, so an upgrade can keep size and
			// modification time. The change time cannot be set.
			numbers = append(numbers, e.info.Size(), e.info.ModTime().UnixNano(), changeTime(e.info))
		}
		for _, n := range numbers {
			b = strconv.AppendInt(append(b, ' '), n, 10)
		}
		b = append(b, '\n')
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
