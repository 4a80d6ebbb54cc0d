//go:build linux

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/cgroup"
)

// groupFile has the sandbox's control group. It is written before there is
// one: a Runtime that comes later may be elsewhere in the tree of groups, and
// this is all by which it can find what to remove.
const groupFile = "cgroup.json"

// abandoned is how old a control group is that nobody is in and nobody is just
// about to be.
const abandoned = time.Hour

// makeGroup makes the control group in which the engine is going to start.
func (s *instance) makeGroup() error {
	group := s.runtime.cgroups.Group(s.id)
	b, err := json.Marshal(group)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.run, groupFile), b, 0o600); err != nil {
		return err
	}
	s.setGroup(group)
	return group.Make(s.row.Limits.host())
}

func (s *instance) setGroup(g *cgroup.Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.group = g
}

func (s *instance) controlGroup() *cgroup.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group
}

// findGroup finds the control group of a sandbox that an earlier Runtime made.
func (s *instance) findGroup() error {
	b, err := os.ReadFile(filepath.Join(s.run, groupFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it had not got so far
	}
	group := &cgroup.Group{}
	if err == nil {
		err = json.Unmarshal(b, group)
	}
	if err == nil {
		err = group.Check(s.id)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", groupFile, err)
	}
	s.group = group
	return nil
}

// limitCPU slows the engine, which has started, down to what the sandbox may
// have. On a busy machine it weighs as much as that many processes.
func (s *instance) limitCPU() error {
	cpus := s.row.Limits.CPUs
	return s.group.Limit(cgroup.Limits{CPUs: cpus, Weight: cpus})
}

// errMemory is the end of a sandbox whose memory grew faster than commands
// could be killed.
var errMemory = &wrapped{text: "sandbox lost: out of memory", kind: ErrLost}

// blame finds out whether it was this machine's kernel that killed a program,
// for want of memory. Then the sandbox is lost.
func (s *instance) blame(status ExitStatus) ExitStatus {
	if status.Cause != CauseSignal || status.Signal != syscall.SIGKILL {
		return status
	}
	if n, err := s.controlGroup().OOMKills(); err != nil || n == 0 {
		return status
	}
	s.endBroken()
	return cutStatus(CauseMemory)
}

// endBroken ends an engine of which the kernel has killed some process for
// want of memory: what is left of it may hang, and is of no use.
func (s *instance) endBroken() {
	ctx, cancel := context.WithTimeout(s.runtime.ctx, cleanupTimeout)
	defer cancel()
	s.mu.Lock()
	engine := s.row.Engine
	s.mu.Unlock()
	if len(engine) == 0 {
		return // somebody else has ended it
	}
	if err := engine[0].kill(ctx); err != nil && s.runtime.ctx.Err() == nil {
		s.runtime.log.Error("end of a sandbox that was out of memory", "id", s.id, "error", err)
	}
}

// lossCause says why the engine has died. The group, if there is one, knows
// until it is removed.
func (s *instance) lossCause() error {
	if n, err := s.controlGroup().OOMKills(); err == nil && n > 0 {
		return fmt.Errorf("%w: it has %s", errMemory, mib(s.row.Limits.Memory))
	}
	return ErrLost
}
