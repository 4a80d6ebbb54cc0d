package exec

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A record is what was last known of the content of a session's files. It lies
// in the session, where its programs can change it: it is believed about that
// session alone, and what is not in it is taken for new.
type record struct {
	Files []known `json:"files"`
}

// known is what a record says of one file.
type known struct {
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Hash     string    `json:"hash"`             // of the content
	Changed  time.Time `json:"changed,omitzero"` // when it had that content
	ReadOnly bool      `json:"readOnly,omitempty"`
	From     *origin   `json:"from,omitempty"` // of a file that was carried in
}

// An origin is the file of another session that one was carried from.
type origin struct {
	Session string    `json:"session"`
	Path    string    `json:"path"`
	Size    int64     `json:"size"`
	Changed time.Time `json:"changed"`
}

const (
	recordName = ownDir + "/record.json"
	maxRecord  = 2 << 20 // bytes
	maxKnown   = 2000    // files; the oldest give way
)

// readRecord returns the record of a session, which is empty if there is none
// that can be read.
func readRecord(fsys fs.FS) (*record, error) {
	f, err := fsys.Open(recordName)
	if isSession(err) {
		return nil, err
	}
	if err != nil {
		return &record{}, nil //nolint:nilerr // a session that has none, or spoilt it
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if isSession(err) {
		return nil, err
	}
	var r record
	if err != nil || len(b) > maxRecord || json.Unmarshal(b, &r) != nil {
		return &record{}, nil
	}
	r.Files = slices.DeleteFunc(r.Files, func(k known) bool {
		p, err := cleanName(k.Path, "")
		return err != nil || p != k.Path || len(k.Hash) > hashLen || k.Size < 0
	})
	return &r, nil
}

func (r *record) find(path string) *known {
	i := slices.IndexFunc(r.Files, func(k known) bool { return k.Path == path })
	if i < 0 {
		return nil
	}
	return &r.Files[i]
}

// paths are those of all files.
func (r *record) paths() []string {
	list := make([]string, len(r.Files))
	for i, k := range r.Files {
		list[i] = k.Path
	}
	return list
}

// put makes files the newest of the record.
func (r *record) put(files []known) {
	for _, k := range files {
		r.drop(k.Path)
		r.Files = append(r.Files, k)
	}
	r.Files = r.Files[max(0, len(r.Files)-maxKnown):]
}

func (r *record) drop(path string) {
	r.Files = slices.DeleteFunc(r.Files, func(k known) bool { return k.Path == path })
}

// amend changes the record of a session.
func (it *Interpreter) amend(ctx context.Context, s *session, change func(*record)) error {
	done, err := it.records.take(ctx, s.ID())
	if err != nil {
		return err
	}
	defer done()
	r, err := readRecord(s.files(ctx))
	if err != nil {
		return err
	}
	change(r)
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.writeOwn(ctx, recordName, string(b))
}

// is reports whether the file is as it was when it was recorded, as far as can
// be told without reading it.
func (k *known) is(info fs.FileInfo) bool {
	return !k.Changed.IsZero() && k.Size == info.Size() && k.Changed.Equal(changeTime(info))
}

// regular describes the file at path if it is a regular one.
func regular(fsys fs.FS, path string) (fs.FileInfo, error) {
	var info fs.FileInfo
	var err error
	if links, ok := fsys.(fs.ReadLinkFS); ok {
		info, err = links.Lstat(path)
	} else {
		info, err = fs.Stat(fsys, path)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return info, err
}

var errNotRegular error = &wrapped{text: "not a regular file", kind: errors.Join(fs.ErrInvalid, sandbox.ErrInvalid)}
