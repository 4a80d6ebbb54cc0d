//go:build linux

package sandbox

import (
	"strings"

	"github.com/hanzoai/sandbox/internal/cgroup"
)

// An Enforcement says whether a limit is enforced on this machine.
type Enforcement struct {
	Limit    string // "memory", "cpu", "pids", "disk", "network" or "time"
	Enforced bool
	By       string // how
	Reason   string // why not
}

// Enforcement tells of each limit whether this Runtime enforces it.
func (r *Runtime) Enforcement() []Enforcement {
	list := make([]Enforcement, 0, 6)
	for _, c := range r.cgroups.Controllers() {
		e := Enforcement{Limit: c.Name, Enforced: c.Usable}
		switch c.Name {
		case cgroup.Memory:
			e.By = "the largest command is killed at the limit, and the kernel ends the sandbox by its control group some way above"
		case cgroup.CPU:
			e.By = "the kernel, by the control group's quota"
		case cgroup.Pids:
			// The machine's own is but a second line.
			c.Usable, e.Enforced = true, true
			e.By = "the guest's kernel, for each command and for all together"
		}
		if !c.Usable {
			e.By, e.Reason = "", c.Why
		}
		list = append(list, e)
	}
	return append(list,
		r.diskEnforcement(),
		Enforcement{Limit: "network", Enforced: true, By: "the guest's kernel has a loopback device and no other"},
		Enforcement{Limit: "time", Enforced: true, By: "the Runtime and, should it be gone, the init inside"},
	)
}

// diskEnforcement tells of the limits on files. Those that end with the engine
// are always bounded; a volume is where this machine can mount one.
func (r *Runtime) diskEnforcement() Enforcement {
	if err := r.volumes.Enforced(); err != nil {
		return Enforcement{Limit: "disk", Reason: "volumes are plain folders, without a size: " + err.Error()}
	}
	return Enforcement{Limit: "disk", Enforced: true, By: "each file system that can be written to has a size: those of the engine by the engine, volumes as file systems of their own"}
}

// checkEnforcement refuses to go on without what Spec promises.
func (r *Runtime) checkEnforcement(strict bool) error {
	if !strict {
		return nil
	}
	var missing []string
	for _, e := range r.Enforcement() {
		if !e.Enforced {
			missing = append(missing, e.Limit+" ("+e.Reason+")")
		}
	}
	if missing == nil {
		return nil
	}
	return &wrapped{text: "Config.Strict: cannot enforce the limit on " + strings.Join(missing, ", nor that on "), kind: ErrUnavailable}
}
