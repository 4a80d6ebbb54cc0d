//go:build linux

package sandbox

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A row is what is kept of a sandbox on disk, beside its bundle and files.
// Listing sandboxes is reading rows: there is no other store to disagree.
type row struct {
	Info
	TTL   time.Duration `json:"ttl"`             // of the lease as it was taken
	Fixed bool          `json:"fixed,omitempty"` // its end does not move by use
	Env   []string      `json:"env,omitempty"`   // of every command

	// Next is the status that a change under way leads to, so that whoever
	// finds the row after a crash knows what to finish; Reason and Purge are
	// those of an end.
	Next   Status `json:"next,omitempty"`
	Reason Reason `json:"reason,omitempty"`
	Purge  bool   `json:"purge,omitempty"`
	Over   bool   `json:"over,omitempty"` // the event of its end is among Events, or told

	Generation uint64  `json:"generation,omitempty"` // of the latest event
	Events     []Event `json:"events,omitempty"`     // that are still to be told

	Staged bool `json:"staged,omitempty"` // it has had no engine yet; Env is what its own is added to

	Mounted bool `json:"mounted,omitempty"` // it has its volume mounted, or is about to

	Engine []process `json:"engine,omitempty"` // its processes, the sandbox's own first
	Boot   string    `json:"boot,omitempty"`   // the machine's run that they belong to
	// Init and Root are the folders of the init's executable and of the
	// image's root, which stay while the sandbox runs.
	Init string `json:"init,omitempty"`
	Root string `json:"root,omitempty"`
}

// statusEnded is what an end leads to. No sandbox has it.
const statusEnded Status = "ended"

const (
	rowFile = "lease.json"
	// maxRow bounds what is read back.
	maxRow = 64 << 20
)

func readRow(dir string) (row, error) {
	f, err := os.Open(filepath.Join(dir, rowFile))
	if err != nil {
		return row{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRow))
	if err != nil {
		return row{}, err
	}
	var r row
	if err := json.Unmarshal(b, &r); err != nil {
		return row{}, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if !validID(r.ID) || r.ID != filepath.Base(dir) {
		return row{}, fmt.Errorf("%s: the row of %q", f.Name(), r.ID)
	}
	return r, nil
}

// write replaces the row on disk so that a crash of this process leaves the
// old or the new; with sync also one of the machine.
func (r *row) write(dir string, sync bool) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, rowFile), b, sync)
}

func replaceFile(path string, b []byte, sync bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(b)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// idLength makes an id a DNS label, acceptable to clients that want 21
// characters, and never the prefix of another.
const idLength = 21

const idAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// newID returns a random id of some 108 bits.
func newID() string {
	id := make([]byte, 0, idLength)
	var b [2 * idLength]byte
	for {
		rand.Read(b[:])
		for _, c := range b {
			// 252 is the last multiple of 36 in a byte: no letter is likelier.
			if c < 252 {
				id = append(id, idAlphabet[c%36])
			}
			if len(id) == idLength {
				return string(id)
			}
		}
	}
}

func validID(id string) bool {
	if len(id) != idLength {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
