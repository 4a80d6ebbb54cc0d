package initd

import (
	"strconv"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// defaultPids is how many processes and threads a command may have at a time,
// unless the host says otherwise. Each is a thread on the host too, which a
// fork bomb would run out of.
const defaultPids = 512

// bound changes the bounds, of the commands that are started from now on and
// of all together. Zero ones stay.
func (g *groups) bound(b wire.Bounds) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	set(&g.bounds.Memory, b.Memory)
	set(&g.bounds.Quota, b.Quota)
	set(&g.bounds.Pids, b.Pids)
	set(&g.bounds.AllPids, b.AllPids)
	return setBounds(g.root, b.Memory, b.Quota, b.AllPids)
}

func set(bound *uint64, to uint64) {
	if to != 0 {
		*bound = to
	}
}

// setBounds writes those that are not zero into a cgroup. The engine keeps
// that of pids, EAGAIN is what a fork too many gets; the others are for
// programs that size themselves by them.
func setBounds(path string, memory, quota, pids uint64) error {
	if memory != 0 {
		if err := writeFile(path+"/memory.max", strconv.FormatUint(memory, 10)); err != nil {
			return err
		}
	}
	if quota != 0 {
		if err := writeFile(path+"/cpu.max", strconv.FormatUint(quota, 10)+" "+strconv.Itoa(wire.QuotaPeriod)); err != nil {
			return err
		}
	}
	if pids == 0 {
		return nil
	}
	return writeFile(path+"/pids.max", strconv.FormatUint(pids, 10))
}

// cpus is how many processors the quota is worth, rounded up; 0 is all.
func (g *groups) cpus() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int((g.bounds.Quota + wire.QuotaPeriod - 1) / wire.QuotaPeriod)
}
