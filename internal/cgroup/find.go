package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// open finds the hierarchies by the files of a process in proc.
func open(proc string) *Host {
	h := &Host{why: map[string]string{}}
	mounts, err := readMounts(filepath.Join(proc, "mountinfo"))
	own, err2 := readOwn(filepath.Join(proc, "cgroup"))
	if err := errors.Join(err, err2); err != nil {
		for _, name := range wanted {
			h.why[name] = err.Error()
		}
		return h
	}
	for _, m := range mounts {
		h.use(m, own)
	}
	for _, name := range wanted {
		if _, ok := h.why[name]; !ok && !h.has(name) {
			h.why[name] = "no cgroup hierarchy with this controller is mounted"
		}
	}
	return h
}

func (h *Host) has(controller string) bool {
	return slices.ContainsFunc(h.places, func(p Place) bool { return p.has(controller) })
}

// use enters what of a hierarchy is wanted and not had yet.
func (h *Host) use(m mount, own map[string]string) {
	var names []string
	for _, name := range append(slices.Clone(wanted), cpuacct) {
		if slices.Contains(m.controllers, name) && !h.has(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	p, why := m.place(own, names)
	if len(p.Controllers) > 0 {
		h.places = append(h.places, p)
	}
	for _, name := range names {
		if !p.has(name) {
			h.why[name] = why
		}
	}
}

// place returns where in the hierarchy groups can be made that have some of
// the controllers, and what is wrong with the others.
func (m *mount) place(own map[string]string, names []string) (Place, string) {
	key := names[0]
	if m.unified {
		key = ""
	}
	dir, ok := m.below(own[key])
	if !ok {
		return Place{}, "this process's own group is outside of what is mounted at " + m.dir
	}
	if m.unified {
		return unified(m.dir, dir, names)
	}
	if why := unwritable(dir); why != "" {
		return Place{}, why
	}
	return Place{Dir: dir, Controllers: names}, ""
}

// unwritable says why no folder can be made in dir; "" is that one can.
func unwritable(dir string) string {
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return dir + ": " + err.Error()
	}
	return ""
}

// A mount is one hierarchy, or part of one, and where it is seen.
type mount struct {
	dir, root   string
	unified     bool
	controllers []string
}

// below returns where a group of the hierarchy is seen.
func (m *mount) below(group string) (dir string, ok bool) {
	if group == "" || strings.Contains(group, "/..") {
		return "", false
	}
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(m.root, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return filepath.Join(m.dir, rest), true
}

// readMounts lists the mounts of control groups: see proc_pid_mountinfo(5).
func readMounts(path string) ([]mount, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []mount
	for line := range strings.Lines(string(b)) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 5 || len(r) < 3 {
			continue
		}
		m := mount{root: unescape(l[3]), dir: unescape(l[4])}
		switch r[0] {
		case "cgroup":
			m.controllers = strings.Split(r[2], ",")
		case "cgroup2":
			m.unified, m.controllers = true, words(filepath.Join(m.dir, "cgroup.controllers"))
		default:
			continue
		}
		list = append(list, m)
	}
	return list, nil
}

// unescape undoes what the kernel does to blanks in a path.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// readOwn tells the group of a process in each hierarchy, by controller; ""
// is that of v2. See cgroups(7).
func readOwn(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			own[name] = parts[2]
		}
	}
	return own, nil
}
