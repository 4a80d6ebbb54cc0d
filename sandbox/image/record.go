package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/hanzoai/sandbox/sandbox"
)

// Info describes an image of a store.
type Info struct {
	Digest   string    `json:"digest"` // of its manifest, as sha256:…
	Names    []string  `json:"names,omitempty"`
	Platform string    `json:"platform"`
	Created  time.Time `json:"created"`
	Used     time.Time `json:"used"` // when it was last leased, or made
	Size     int64     `json:"size"` // of its files, in bytes
	Entries  int64     `json:"entries"`
	Layers   []string  `json:"layers"`           // digests of their archives
	Recipe   string    `json:"recipe,omitempty"` // the digest of the recipe that it was built by

	// Env is what commands start with, but for HOME, USER and LOGNAME.
	Env []string `json:"env,omitempty"`
	// The rest of what the image says of itself. A sandbox does not follow it:
	// it runs the commands that it is given, in its own workdir, as its own
	// user.
	User       string   `json:"user,omitempty"`
	Workdir    string   `json:"workdir,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
}

const infoFile = "image.json"

// maxRecord bounds the store's own files when they are read back.
const maxRecord = 64 << 20

// A nameRecord is what a name stands for.
type nameRecord struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	// Source is where it is from: pulled, imported, or built by a recipe's
	// digest.
	Source string    `json:"source"`
	Stamp  string    `json:"stamp,omitempty"` // of the file that it was read from
	At     time.Time `json:"at"`
}

// The ways by which a name came to be.
const (
	sourcePulled   = "pulled"
	sourceImported = "imported"
	sourcePath     = "path" // a lease named a file
)

func (s *Store) namePath(name string) string {
	sum := sha256.Sum256([]byte(name))
	return s.path(namesDir, hex.EncodeToString(sum[:]))
}

func (s *Store) readName(name string) (*nameRecord, error) {
	var r nameRecord
	if err := readJSON(s.namePath(name), &r); err != nil {
		return nil, err
	}
	if r.Name != name {
		return nil, fmt.Errorf("image store: the record of %.80q is another's", name)
	}
	return &r, nil
}

func (s *Store) writeName(r *nameRecord) error {
	r.At = time.Now()
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFile(s.namePath(r.Name), b)
}

// names returns what all names stand for.
func (s *Store) names() ([]*nameRecord, error) {
	entries, err := os.ReadDir(s.path(namesDir))
	if err != nil {
		return nil, err
	}
	var list []*nameRecord
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		var r nameRecord
		err := readJSON(s.path(namesDir, e.Name()), &r)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, &r)
	}
	slices.SortFunc(list, func(a, b *nameRecord) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (s *Store) readInfo(h v1.Hash) (*Info, error) {
	path := s.path(imagesDir, h.Hex, infoFile)
	var info Info
	if err := readJSON(path, &info); err != nil {
		return nil, err
	}
	if st, err := os.Stat(path); err == nil {
		info.Used = st.ModTime()
	}
	return &info, nil
}

// List lists the images, by name.
func (s *Store) List() ([]Info, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.path(imagesDir))
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, e := range entries {
		info, err := s.readInfo(v1.Hash{Algorithm: "sha256", Hex: e.Name()})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if n.Digest == info.Digest {
				info.Names = append(info.Names, n.Name)
			}
		}
		list = append(list, *info)
	}
	slices.SortFunc(list, func(a, b Info) int {
		return strings.Compare(strings.Join(a.Names, " ")+a.Digest, strings.Join(b.Names, " ")+b.Digest)
	})
	return list, nil
}

// Inspect describes the image that a name, or a digest, stands for. It fetches
// nothing.
func (s *Store) Inspect(name string) (*Info, error) {
	h, err := s.find(name)
	if err != nil {
		return nil, err
	}
	info, err := s.readInfo(h)
	if err != nil {
		return nil, err
	}
	info.Names = []string{name}
	return info, nil
}

// find returns the image that a name or a digest stands for.
func (s *Store) find(name string) (v1.Hash, error) {
	if h, err := v1.NewHash(name); err == nil && exists(s.path(imagesDir, h.Hex)) {
		return h, nil
	}
	if parsed, err := parseName(name); err == nil {
		name = parsed.String()
	}
	r, err := s.readName(name)
	if errors.Is(err, fs.ErrNotExist) {
		return v1.Hash{}, refused(sandbox.ErrNotFound, "image %.200q is not in the store", name)
	}
	if err != nil {
		return v1.Hash{}, err
	}
	return v1.NewHash(r.Digest)
}

func readJSON(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}
