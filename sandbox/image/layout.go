package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// Annotations by which an OCI layout names its images.
const (
	refName        = "org.opencontainers.image.ref.name"
	containerdName = "io.containerd.image.name"
)

// contents are the files of an OCI layout or a docker archive.
type contents interface {
	file(name string) (io.ReadCloser, error)
	Close() error
}

// folderContents are those in a folder.
type folderContents struct{ *os.Root }

func (c folderContents) file(name string) (io.ReadCloser, error) {
	// Nonblocking, since what is there may be a pipe.
	f, err := c.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// layoutBlobs are the blobs of an OCI layout.
type layoutBlobs struct{ contents }

func (l layoutBlobs) blob(h v1.Hash) (io.ReadCloser, error) {
	if h.Algorithm != "sha256" {
		return nil, fmt.Errorf("digest %s: only sha256 is known", h)
	}
	return l.file(path.Join("blobs", h.Algorithm, h.Hex))
}

// fromLayout returns an image of an OCI layout, the only one if which is "".
func (s *Store) fromLayout(c contents, which string) (*source, error) {
	b, err := readFile(c, "index.json")
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("index.json: %w", err)
	}
	d, err := s.named(index.Manifests, which)
	if err != nil {
		return nil, err
	}
	return s.fromBlobs(layoutBlobs{c}, d, c.Close)
}

// named returns the image of a layout that has a name, or a digest.
func (s *Store) named(list []v1.Descriptor, which string) (v1.Descriptor, error) {
	var names []string
	var found []v1.Descriptor
	for _, d := range list {
		name := d.Annotations[refName]
		if which == "" || slices.Contains([]string{name, d.Annotations[containerdName], d.Digest.String()}, which) {
			found = append(found, d)
		}
		names = append(names, name)
	}
	if which == "" && len(found) > 1 && found[0].Platform == nil {
		return v1.Descriptor{}, invalid("several images: name one as path#name, of %.500s", strings.Join(names, ", "))
	}
	switch len(found) {
	case 0:
		return v1.Descriptor{}, invalid("no image %.100q: have %.500s", which, strings.Join(names, ", "))
	case 1:
		return found[0], nil
	}
	return s.choose(found)
}

func readFile(c contents, name string) ([]byte, error) {
	r, err := c.file(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err == nil && len(b) > maxManifest {
		err = fmt.Errorf("%s: more than %d bytes", name, maxManifest)
	}
	return b, err
}
