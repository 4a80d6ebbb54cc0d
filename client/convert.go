package client

import (
	"io/fs"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

func infoOf(s *SandboxSandbox) sandbox.Info {
	return sandbox.Info{
		ID: s.ID, Owner: sandbox.Owner{Org: s.Org, Actor: s.Actor},
		Class: s.Class, Project: s.Project, Image: s.Image, Digest: s.Digest,
		Limits: sandbox.Limits{CPUs: s.Limits.Cpus, Memory: s.Limits.Memory, Pids: int(s.Limits.Pids)},
		Status: sandbox.Status(s.Status), Error: s.Error, Workdir: workdirOf(s), Volume: s.Volume,
		Created: fromUnix(s.CreatedAt), Used: fromUnix(s.LastUsedAt),
		Connected: fromUnix(s.ConnectedAt), Expires: fromUnix(s.ExpiresAt),
	}
}

// workdirOf is for servers that do not tell it in a row: the classes have
// fixed ones.
func workdirOf(s *SandboxSandbox) string {
	switch {
	case s.Workdir != "":
		return s.Workdir
	case s.Class == sandbox.ClassExec:
		return "/mnt/data"
	}
	return "/work"
}

func fromUnix(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// A fileInfo is a file's description from the wire. It is a directory's entry
// too.
type fileInfo struct {
	name string
	size int64
	mode fs.FileMode
	time time.Time
}

func fileInfoOf(s *SandboxStat) *fileInfo {
	name := s.Name
	if len(s.Base64) > 0 {
		name = string(s.Base64)
	}
	return &fileInfo{name: name, size: s.Size, mode: fs.FileMode(s.Mode), time: s.Mtime.Local()}
}

func (i *fileInfo) Name() string               { return i.name }
func (i *fileInfo) Size() int64                { return i.size }
func (i *fileInfo) Mode() fs.FileMode          { return i.mode }
func (i *fileInfo) Type() fs.FileMode          { return i.mode.Type() }
func (i *fileInfo) ModTime() time.Time         { return i.time }
func (i *fileInfo) IsDir() bool                { return i.mode.IsDir() }
func (i *fileInfo) Sys() any                   { return nil }
func (i *fileInfo) Info() (fs.FileInfo, error) { return i, nil }
func (i *fileInfo) String() string             { return fs.FormatFileInfo(i) }
