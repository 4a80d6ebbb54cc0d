package tree

import (
	"fmt"
	"sync/atomic"
)

// A Budget is what an image may take at most. Its layers share it.
type Budget struct {
	MaxBytes   int64 // of the uncompressed layers
	MaxEntries int64 // files, folders and links

	bytes, content, entries, names atomic.Int64
}

// A TooBigError is an image that is beyond its Budget.
type TooBigError struct {
	What  string
	Limit int64
}

func (e *TooBigError) Error() string { return fmt.Sprintf("more than %d %s", e.Limit, e.What) }

// Bytes takes n bytes.
func (b *Budget) Bytes(n int64) error {
	if b.bytes.Add(n) > b.MaxBytes {
		return &TooBigError{What: "bytes", Limit: b.MaxBytes}
	}
	return nil
}

// Content takes n bytes of a file's. A sparse file has more of them than it
// takes in its archive.
func (b *Budget) Content(n int64) error {
	if n > b.MaxBytes || b.content.Add(n) > b.MaxBytes {
		return &TooBigError{What: "bytes", Limit: b.MaxBytes}
	}
	return nil
}

// maxNames bounds the names of folders and whiteouts, which are held in memory.
// A whole Debian has a few megabytes of them.
const maxNames = 32 << 20

// Names takes names.
func (b *Budget) Names(names ...string) error {
	for _, name := range names {
		if b.names.Add(int64(len(name))) > maxNames {
			return &TooBigError{What: "bytes of names", Limit: maxNames}
		}
	}
	return nil
}

// Entries takes n entries.
func (b *Budget) Entries(n int64) error {
	if b.entries.Add(n) > b.MaxEntries {
		return &TooBigError{What: "entries", Limit: b.MaxEntries}
	}
	return nil
}
