package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/hanzoai/sandbox/internal/hostview"
)

// adopt takes over the sandboxes of an earlier Runtime, and removes what is
// left of those that have ended.
func (r *Runtime) adopt() error {
	entries, err := os.ReadDir(r.folder("sandboxes"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if validID(e.Name()) {
			r.adoptOne(e.Name())
		}
	}
	return nil
}

func (r *Runtime) adoptOne(id string) {
	s, err := r.found(id)
	if err == nil && s.row.Status == StatusRunning {
		ctx, cancel := context.WithTimeout(r.ctx, cleanupTimeout)
		defer cancel()
		if s.watch, err = s.openWatch(ctx); err == nil {
			err = r.enter(s)
		}
		if err == nil {
			return
		}
	}
	r.log.Info("remove what is left of a sandbox", "id", id, "error", err)
	if err := s.scrap(); err != nil {
		r.log.Error("clean up", "id", id, "error", err)
	}
}

// found returns the sandbox that has a folder. Without a readable row it is
// one that was being made, or unmade: fit to be removed.
func (r *Runtime) found(id string) (*instance, error) {
	row, err := readRow(filepath.Join(r.folder("sandboxes"), id))
	if err != nil {
		row.Info = Info{ID: id}
	}
	s := r.instance(row)
	return s, errors.Join(err, s.findGroup())
}

// collect removes what no sandbox uses any more: executables of earlier
// programs, and earlier views of this machine.
func (r *Runtime) collect() error {
	used := map[string]bool{filepath.Base(r.bin): true}
	views := map[string]bool{}
	for _, s := range r.all() {
		used[filepath.Base(s.row.Init)] = true
		views[filepath.Base(s.row.Root)] = true
	}
	entries, err := os.ReadDir(r.folder("bin"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !used[e.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.folder("bin"), e.Name())))
		}
	}
	host := filepath.Join(r.folder("images"), HostImage)
	if _, missing := os.Stat(host); missing != nil {
		return err
	}
	return errors.Join(err, hostview.Prune(host, views))
}
