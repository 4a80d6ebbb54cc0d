//go:build linux

package sandbox

import (
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// A stagedFile tells when it changed, as files inside do.
type stagedFile struct {
	*os.File
	stage *stage
	rel   string
}

func (f *stagedFile) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return stagedInfo{info}, nil
}

// ReadDir has the entries looked at by way of the Stage: a program may have come
// meanwhile, and put a link in the place of the folder.
func (f *stagedFile) ReadDir(n int) ([]fs.DirEntry, error) {
	list, err := f.File.ReadDir(n)
	for i, e := range list {
		list[i] = &stagedEntry{e, f.stage, path.Join(f.rel, e.Name())}
	}
	return list, err
}

type stagedEntry struct {
	fs.DirEntry
	stage *stage
	rel   string
}

func (e *stagedEntry) Info() (fs.FileInfo, error) { return e.stage.Stat(e.rel) }

type stagedInfo struct{ fs.FileInfo }

func (i stagedInfo) Sys() any { return nil }

// ChangeTime is when anything about the file last changed.
func (i stagedInfo) ChangeTime() time.Time {
	st, ok := i.FileInfo.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(st.Ctim.Unix())
}
