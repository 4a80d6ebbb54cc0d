package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	firstWait = 500 * time.Microsecond
	lastWait  = 20 * time.Millisecond
)

// Remove kills whatever is still in the group and removes it. It is no error
// if there is nothing.
func (g *Group) Remove(ctx context.Context) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := g.rmdir()
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("cgroup: %w", err)
		}
		if err := g.Kill(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cgroup: %w: %w", err, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

func (g *Group) rmdir() error {
	var errs []error
	for _, p := range g.Places {
		// Not os.Remove, which tries a plain file first and reports that.
		if err := unix.Rmdir(p.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, &fs.PathError{Op: "rmdir", Path: p.Dir, Err: err})
		}
	}
	return errors.Join(errs...)
}

// Kill kills the processes in the group, and does not wait for their end.
func (g *Group) Kill() error {
	var errs []error
	for _, p := range g.Places {
		if p.Unified {
			err := optional(write(p.path("cgroup.kill"), "1"))
			errs = append(errs, err)
		}
		errs = append(errs, p.killEach())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}

// killEach holds each process by a descriptor before it makes sure that it is
// one of the group's: its number may be another's by now.
func (p *Place) killEach() error {
	pids, err := p.procs()
	if err != nil || len(pids) == 0 {
		return err
	}
	held := map[int]int{}
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			held[pid] = fd
			defer unix.Close(fd)
		}
	}
	pids, err = p.procs() // again, now that they are held
	for pid, fd := range held {
		if slices.Contains(pids, pid) {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may have ended
		}
	}
	return err
}

// Procs lists the processes in the group. This one is never among them, though
// a thread of it that was there to start something may be just ending.
func (g *Group) Procs() ([]int, error) {
	if len(g.Places) == 0 {
		return nil, nil
	}
	return g.Places[0].procs()
}

func (p *Place) procs() ([]int, error) {
	b, err := os.ReadFile(p.path("cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil // it has just been removed
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for word := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(word); err == nil && pid > 0 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
