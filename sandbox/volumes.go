//go:build linux

package sandbox

import (
	"context"

	"github.com/hanzoai/sandbox/internal/volume"
)

// diskPrefix begins the names of volumes that are a sandbox's own.
const diskPrefix = "disk-"

// volumeName names the volume that a sandbox keeps its files on: its
// project's, or, if it is to have a disk, one of its own.
func volumeName(info *Info, disk bool) string {
	switch {
	case info.Project != "":
		return volume.Name(info.Owner.Org, info.Project)
	case disk:
		return diskPrefix + info.ID
	}
	return ""
}

// mount makes the sandbox's volume ready and returns the folder of its files;
// "" without a volume. The caller holds s.moving.
func (s *instance) mount(ctx context.Context) (string, error) {
	if s.row.Volume == "" {
		return "", nil
	}
	c := s.class()
	size := c.Disk
	if s.row.Project != "" {
		size = c.Volume
	}
	s.mu.Lock()
	s.row.Mounted = true // which the next Runtime has to know also if this one gets no further
	s.mu.Unlock()
	if err := s.write(false); err != nil {
		return "", err
	}
	return s.runtime.volumes.Mount(ctx, s.row.Volume, size, defaultUID, defaultUID)
}

// unmount gives the volume back, and says so in the row before anybody else can
// have it. The caller holds s.moving.
func (s *instance) unmount(ctx context.Context) error {
	if !s.row.Mounted {
		return nil
	}
	stats, err := s.runtime.volumes.Unmount(ctx, s.row.Volume)
	if err != nil {
		return err
	}
	s.flushed = stats.Flush
	if stats.Lazy {
		s.runtime.log.Warn("a volume was in use when it was unmounted", "id", s.id, "volume", s.row.Volume)
	}
	s.mu.Lock()
	s.row.Mounted = false
	s.mu.Unlock()
	return s.write(false)
}

// removeVolume deletes a volume that is to go with the sandbox.
func (s *instance) removeVolume(ctx context.Context) error {
	if s.row.Volume == "" || s.row.Project != "" && !s.row.Purge {
		return nil
	}
	return s.runtime.volumes.Remove(ctx, s.row.Volume)
}
