//go:build linux

package sandbox

import (
	"cmp"
	"math"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

const (
	minCPUs = 0.05
	// maxCPUs and maxMemory keep what is computed from them in bounds. More
	// than the machine has is as much as it has.
	maxCPUs   = 1024
	maxMemory = 1 << 50
)

// completeLimits checks the limits in a Spec and fills in the class's.
func completeLimits(spec *Spec, c *Class) error {
	spec.CPUs, spec.Memory = cmp.Or(spec.CPUs, c.CPUs), cmp.Or(spec.Memory, c.Memory)
	return checkLimits(spec.CPUs, spec.Memory)
}

func checkLimits(cpus float64, memory int64) error {
	if !(cpus >= minCPUs && cpus <= maxCPUs) { // NaN is neither
		return invalid("%v CPUs: a sandbox has %v to %d of them", cpus, minCPUs, maxCPUs)
	}
	if memory < MinMemory || memory > maxMemory {
		return invalid("%d bytes of memory: a sandbox has %d MiB or more", memory, MinMemory>>20)
	}
	return nil
}

const (
	// allPids is how many times the processes of one command those of all
	// together may be: a fork bomb in the background leaves room for others.
	allPids = 2
	// hostPids is how many threads of this machine an engine may have. It has
	// about one for each of the guest's, and dies for want of the next.
	hostPids = 1 << 13
	// minSlack and slackPart are how far above the sandbox's limit this
	// machine's own is, which ends the sandbox: as far as memory can grow
	// until the largest command has been killed.
	minSlack  = 128 << 20
	slackPart = 8
	// startWeight is the share of a busy machine that a starting engine has,
	// whose several threads would otherwise count as one process.
	startWeight = 8
)

// host is what this machine holds the engine to. The processors come later:
// the engine starts at full speed.
func (l Limits) host() cgroup.Limits {
	return cgroup.Limits{Memory: l.Memory + max(minSlack, l.Memory/slackPart), Pids: hostPids, Weight: startWeight}
}

// bounds is what the init holds commands to, and what it tells them.
func (l Limits) bounds() wire.Bounds {
	if l == (Limits{}) {
		return wire.Bounds{} // a row of a time without limits
	}
	return wire.Bounds{
		Memory: uint64(l.Memory), Quota: uint64(cgroup.Quota(l.CPUs)),
		Pids: uint64(l.Pids), AllPids: uint64(allPids * l.Pids),
	}
}

// resources is for package runsc, by whose engine the guest's kernel learns
// how much memory and how many processors to show.
func (l Limits) resources() *specs.LinuxResources {
	quota, period := cgroup.Quota(l.CPUs), uint64(cgroup.Period)
	return &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: &l.Memory},
		CPU:    &specs.LinuxCPU{Quota: &quota, Period: &period},
	}
}

// mib is a size as people say it.
func mib(n int64) string {
	return strconv.FormatInt(int64(math.Round(float64(n)/(1<<20))), 10) + " MiB"
}
