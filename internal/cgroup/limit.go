package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Period is that of CPU time, in microseconds: what a group may use of it is
// counted anew as often.
const Period = 100_000

// minQuota is the least that the kernel takes, in microseconds.
const minQuota = 1000

// Quota is how much of each Period that many processors' worth of time is.
func Quota(cpus float64) int64 {
	return max(int64(math.Round(cpus*Period)), minQuota)
}

// Limit sets those limits that are not zero, where their controllers can be
// used.
func (g *Group) Limit(l Limits) error {
	var errs []error
	if p := g.place(Memory); p != nil && l.Memory > 0 {
		errs = append(errs, p.limitMemory(strconv.FormatInt(l.Memory, 10)))
	}
	if p := g.place(CPU); p != nil && l.CPUs > 0 {
		errs = append(errs, p.limitCPU(Quota(l.CPUs)))
	}
	if p := g.place(CPU); p != nil && l.Weight > 0 {
		errs = append(errs, p.weigh(l.Weight))
	}
	if p := g.place(Pids); p != nil && l.Pids > 0 {
		errs = append(errs, write(p.path("pids.max"), strconv.Itoa(l.Pids)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}

// limitMemory leaves no room for swap: what is swapped out would not be seen.
// When the kernel has to kill in a v2 group, it kills all of it: an engine
// without one of its processes would hang.
func (p *Place) limitMemory(limit string) error {
	if p.Unified {
		return errors.Join(
			write(p.path("memory.max"), limit),
			optional(write(p.path("memory.swap.max"), "0")),
			optional(write(p.path("memory.oom.group"), "1")),
		)
	}
	err := write(p.path("memory.limit_in_bytes"), limit)
	swap := optional(write(p.path("memory.memsw.limit_in_bytes"), limit))
	if errors.Is(err, unix.EINVAL) { // above the limit with swap, as that was
		err = write(p.path("memory.limit_in_bytes"), limit)
	}
	return errors.Join(err, swap)
}

// limitCPU leaves a v1 group alone that is within a narrower one: there the
// kernel refuses what is of no effect.
func (p *Place) limitCPU(quota int64) error {
	if p.Unified {
		return write(p.path("cpu.max"), strconv.FormatInt(quota, 10)+" "+strconv.Itoa(Period))
	}
	if err := write(p.path("cpu.cfs_period_us"), strconv.Itoa(Period)); err != nil {
		return err
	}
	err := write(p.path("cpu.cfs_quota_us"), strconv.FormatInt(quota, 10))
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// weigh sets the share, in bounds that the kernel takes.
func (p *Place) weigh(weight float64) error {
	if p.Unified {
		return write(p.path("cpu.weight"), strconv.Itoa(min(max(int(100*weight), 1), 10_000)))
	}
	return write(p.path("cpu.shares"), strconv.Itoa(min(max(int(1024*weight), 2), 1<<18)))
}

// optional forgives a file that this kernel does not have.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// write writes a control file in one call. It makes none.
func write(path, s string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(s)
	return errors.Join(err, f.Close())
}
