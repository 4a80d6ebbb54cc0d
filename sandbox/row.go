package sandbox

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A row is what is kept of a sandbox on disk, beside its bundle and files.
// Listing sandboxes is reading rows: there is no other store to disagree.
type row struct {
	Info
	Env []string `json:"env,omitempty"` // of every command
	PID int      `json:"pid,omitempty"` // of the engine's sandbox process
	// Started is that process's start time in clock ticks since boot, which
	// with the pid tells it from any other.
	Started uint64 `json:"started,omitempty"`
	// Init and Root are the folders of the init's executable and of the
	// image's root, which stay while the sandbox runs.
	Init string `json:"init,omitempty"`
	Root string `json:"root,omitempty"`
}

const (
	rowFile = "lease.json"
	// maxRow bounds what is read back.
	maxRow = 8 << 20
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

// write replaces the row on disk so that a crash leaves the old or the new.
func (r *row) write(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(dir, rowFile), b)
}

func writeSynced(path string, b []byte) (err error) {
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
	if err == nil {
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
