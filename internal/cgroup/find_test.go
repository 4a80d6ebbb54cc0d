package cgroup_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// A machine is what the kernel tells of one, with the trees in a temporary
// folder: %s stands for that.
type machine struct {
	mountinfo, cgroup string
	folders           []string          // of the trees
	files             map[string]string // in them
}

func (m machine) make(t *testing.T) (proc, root string) {
	t.Helper()
	root, proc = t.TempDir(), t.TempDir()
	for _, dir := range m.folders {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, s string) {
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(s, "%s", root)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range m.files {
		write(filepath.Join(root, name), s)
	}
	write(filepath.Join(proc, "mountinfo"), m.mountinfo)
	write(filepath.Join(proc, "cgroup"), m.cgroup)
	return proc, root
}

const (
	v1Mounts = `22 1 8:1 / / rw - ext4 /dev/vda rw
31 30 0:28 / %s/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 30 0:31 / %s/memory rw,relatime - cgroup cgroup rw,memory
38 30 0:35 / %s/pids rw,relatime - cgroup cgroup rw,pids
39 30 0:36 / %s/systemd rw,relatime - cgroup cgroup rw,name=systemd
`
	v2Mount = `30 22 0:27 / %s/cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
`
	all = "cpuset cpu io memory hugetlb pids\n"
)

var machines = map[string]struct {
	machine
	where map[string]string // of each usable controller
	why   map[string]string // part of it, of the others
}{
	"v1": {
		machine{
			mountinfo: v1Mounts,
			cgroup:    "9:name=systemd:/x\n8:pids:/\n4:memory:/user/1\n1:cpu,cpuacct:/\n0::/\n",
			folders:   []string{"cpu", "memory/user/1", "pids"},
		},
		map[string]string{"memory": "memory/user/1", "cpu": "cpu", "pids": "pids"},
		nil,
	},
	"v1 in a container that sees its own part": {
		machine{
			mountinfo: "1 1 0:1 /docker/a\\040b %s/memory rw - cgroup cgroup rw,memory\n",
			cgroup:    "4:memory:/docker/a b/c\n",
			folders:   []string{"memory/c"},
		},
		map[string]string{"memory": "memory/c"},
		map[string]string{"pids": "no cgroup hierarchy", "cpu": "no cgroup hierarchy"},
	},
	"v1 outside of what is mounted": {
		machine{
			mountinfo: "1 1 0:1 /docker/a %s/memory rw - cgroup cgroup rw,memory\n",
			cgroup:    "4:memory:/docker/ab\n",
			folders:   []string{"memory/b"},
		},
		nil,
		map[string]string{"memory": "outside of what is mounted"},
	},
	"v1 seen from a namespace beside it": {
		machine{
			mountinfo: "1 1 0:1 / %s/memory rw - cgroup cgroup rw,memory\n",
			cgroup:    "4:memory:/../other\n",
			folders:   []string{"memory"},
		},
		nil,
		map[string]string{"memory": "outside of what is mounted"},
	},
	"hybrid": {
		machine{
			mountinfo: "1 1 0:1 / %s/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" + v2Mount,
			cgroup:    "1:cpu,cpuacct:/\n0::/\n",
			folders:   []string{"cpu", "cg"},
			files:     map[string]string{"cg/cgroup.controllers": "memory pids\n", "cg/cgroup.subtree_control": "memory pids\n"},
		},
		map[string]string{"memory": "cg", "pids": "cg", "cpu": "cpu"},
		nil,
	},
	"v2 with a place of its own": {
		machine{
			mountinfo: v2Mount, cgroup: "0::/system.slice/own\n", folders: []string{"cg/system.slice/own"},
			files: map[string]string{
				"cg/cgroup.controllers": all, "cg/cgroup.subtree_control": all, "cg/system.slice/cgroup.subtree_control": all,
				"cg/system.slice/own/cgroup.subtree_control": "cpu memory pids\n",
			},
		},
		map[string]string{"memory": "cg/system.slice/own", "cpu": "cg/system.slice/own", "pids": "cg/system.slice/own"},
		nil,
	},
	"v2 whose own place has nothing to give": {
		machine{
			mountinfo: v2Mount, cgroup: "0::/system.slice/own\n", folders: []string{"cg/system.slice/own"},
			files: map[string]string{
				"cg/cgroup.controllers": all, "cg/cgroup.subtree_control": all, "cg/system.slice/cgroup.subtree_control": "memory cpu pids",
			},
		},
		map[string]string{"memory": "cg/system.slice", "cpu": "cg/system.slice", "pids": "cg/system.slice"},
		nil,
	},
	"v2 of which only the root can": {
		machine{
			mountinfo: v2Mount, cgroup: "0::/user.slice/own\n", folders: []string{"cg/user.slice/own"},
			files: map[string]string{"cg/cgroup.controllers": all, "cg/cgroup.subtree_control": ""},
		},
		map[string]string{"memory": "cg", "cpu": "cg", "pids": "cg"},
		nil,
	},
	"v2 without pids": {
		machine{
			mountinfo: v2Mount, cgroup: "0::/\n", folders: []string{"cg"},
			files: map[string]string{"cg/cgroup.controllers": "memory cpu", "cg/cgroup.subtree_control": "memory cpu"},
		},
		map[string]string{"memory": "cg", "cpu": "cg"},
		map[string]string{"pids": "no cgroup hierarchy"},
	},
	"v2 that gives nothing": {
		machine{
			mountinfo: v2Mount, cgroup: "0::/a/b\n", folders: []string{"cg/a/b"},
			files: map[string]string{"cg/cgroup.controllers": all},
		},
		nil,
		map[string]string{"memory": "Delegate=yes", "cpu": "Delegate=yes", "pids": "Delegate=yes"},
	},
	"none": {machine{mountinfo: "22 1 8:1 / / rw - ext4 /dev/vda rw\n", cgroup: "0::/\n"}, nil, map[string]string{
		"memory": "no cgroup hierarchy", "cpu": "no cgroup hierarchy", "pids": "no cgroup hierarchy",
	}},
	"nonsense": {machine{mountinfo: "a - cgroup\n- \n1 2 3 4 5 - cgroup2\n\n", cgroup: "::\n:\nx\n"}, nil, map[string]string{
		"memory": "no cgroup hierarchy", "cpu": "no cgroup hierarchy", "pids": "no cgroup hierarchy",
	}},
}

func TestOpen(t *testing.T) {
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			proc, root := m.make(t)
			var names []string
			for _, c := range cgroup.OpenAt(proc).Controllers() {
				names = append(names, c.Name)
				where, ok := m.where[c.Name]
				is.Equal(c.Usable, ok) // usable
				if ok {
					is.Equal(c.Where, filepath.Join(root, where))
					is.Equal(c.Why, "")
					continue
				}
				is.True(c.Why != "")
				is.True(strings.Contains(c.Why, m.why[c.Name])) // the reason
			}
			is.Equal(names, []string{"memory", "cpu", "pids"})
		})
	}
}

func TestOpenWithoutProc(t *testing.T) {
	is := is.New(t)
	h := cgroup.OpenAt(t.TempDir())
	for _, c := range h.Controllers() {
		is.True(!c.Usable && strings.Contains(c.Why, "no such file"))
	}
	is.Equal(len(h.Group("x").Places), 0)
}

// TestUnified works on the machine's own v2 tree, with whatever controller
// that has.
func TestUnified(t *testing.T) {
	is := is.New(t)
	root, controller := realUnified(t)
	above := filepath.Join(root, "cgrouptest-"+filepath.Base(t.TempDir()))
	own := filepath.Join(above, "own")
	is.NoErr(os.MkdirAll(own, 0o755))
	defer os.Remove(above)
	defer os.Remove(own)

	cmd := sleeper(t)
	g := &cgroup.Group{Places: []cgroup.Place{{Dir: own, Unified: true}}}
	is.NoErr(g.Start(cmd)) // the kernel puts it there
	defer func() {
		g.Remove(context.Background())
		cmd.Wait()
	}()
	pids, err := g.Procs()
	is.NoErr(err)
	is.Equal(pids, []int{cmd.Process.Pid})

	p, why := cgroup.Unified(root, own, []string{controller})
	is.Equal(p, cgroup.Place{Dir: above, Unified: true, Controllers: []string{controller}}) // beside it, as it has a process
	is.Equal(why, "")
	b, err := os.ReadFile(filepath.Join(above, "cgroup.subtree_control"))
	is.NoErr(err)
	is.Equal(strings.TrimSpace(string(b)), controller)

	_, why = cgroup.Unified(own, own, []string{controller}) // as if there were nothing above
	is.True(strings.Contains(why, "has processes of its own"))
	_, why = cgroup.Unified(above, own, []string{controller, "unheard-of"})
	is.True(why != "")

	is.NoErr(g.Remove(t.Context())) // by cgroup.kill
	is.Equal(cmd.Wait().Error(), "signal: killed")
}

// realUnified finds a mounted v2 tree, and turns a controller on at its root
// for the time of the test.
func realUnified(t *testing.T) (root, controller string) {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		have, _ := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		list := strings.Fields(string(have))
		if len(list) == 0 {
			continue
		}
		file := filepath.Join(root, "cgroup.subtree_control")
		on, _ := os.ReadFile(file)
		if !slices.Contains(strings.Fields(string(on)), list[0]) {
			if err := os.WriteFile(file, []byte("+"+list[0]), 0); err != nil {
				continue
			}
			t.Cleanup(func() { os.WriteFile(file, []byte("-"+list[0]), 0) })
		}
		return root, list[0]
	}
	runtimetest.Lacks(t, "no cgroup v2 tree with a controller")
	return "", ""
}
