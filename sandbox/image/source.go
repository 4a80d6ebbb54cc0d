package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Limits on what describes an image.
const (
	maxManifest = 8 << 20
	maxLayers   = 256
	maxEnv      = 64 << 10
	maxNested   = 4 // indexes in indexes
)

// A source is an image that is somewhere else.
type source struct {
	manifest []byte
	config   []byte
	open     func(v1.Descriptor) (io.ReadCloser, error) // a layer, compressed as it is
	close    func() error
}

// blobs is content by digest: an OCI layout, in a folder or an archive.
type blobs interface {
	blob(v1.Hash) (io.ReadCloser, error)
}

// readBlob reads what describes an image, and checks that it is what was
// asked for.
func readBlob(from blobs, d v1.Descriptor) ([]byte, error) {
	if d.Size < 0 || d.Size > maxManifest {
		return nil, fmt.Errorf("%s: %d bytes that describe an image", d.Digest, d.Size)
	}
	r, err := from.blob(d.Digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, d.Size+1))
	if err != nil {
		return nil, err
	}
	return b, checkBlob(b, d.Digest)
}

func checkBlob(b []byte, want v1.Hash) error {
	got, _, err := v1.SHA256(bytes.NewReader(b))
	if err == nil && got != want {
		err = &DigestError{Want: want.String(), Got: got.String()}
	}
	return err
}

// A DigestError is content that is not what its digest says.
type DigestError struct{ Want, Got string }

func (e *DigestError) Error() string {
	return "wrong digest: " + e.Got + " in the place of " + e.Want
}

// fromBlobs returns the image that a descriptor stands for, the one for the
// platform if it is several.
func (s *Store) fromBlobs(from blobs, d v1.Descriptor, close func() error) (*source, error) {
	for range maxNested {
		b, err := readBlob(from, d)
		if err != nil {
			return nil, err
		}
		if !d.MediaType.IsIndex() {
			return oneFromBlobs(from, b, close)
		}
		index, err := v1.ParseIndexManifest(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", d.Digest, err)
		}
		if d, err = s.choose(index.Manifests); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("indexes in indexes in indexes")
}

func oneFromBlobs(from blobs, manifest []byte, close func() error) (*source, error) {
	m, err := v1.ParseManifest(bytes.NewReader(manifest))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	config, err := readBlob(from, m.Config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	open := func(d v1.Descriptor) (io.ReadCloser, error) { return from.blob(d.Digest) }
	return &source{manifest: manifest, config: config, open: open, close: close}, nil
}

// choose returns the one of several images that is for the store's platform.
// One that does not say what it is for is taken if it is the only one.
func (s *Store) choose(list []v1.Descriptor) (v1.Descriptor, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(d v1.Descriptor) bool {
		return !d.MediaType.IsImage() && !d.MediaType.IsIndex()
	})
	var have []string
	for _, d := range list {
		if d.Platform == nil {
			continue
		}
		if d.Platform.Satisfies(*s.platform) {
			return d, nil
		}
		have = append(have, d.Platform.String())
	}
	if len(list) == 1 && list[0].Platform == nil {
		return list[0], nil
	}
	return v1.Descriptor{}, fmt.Errorf("no image for %s: have %s", s.platform, strings.Join(have, ", "))
}

// described is an image whose description has been checked.
type described struct {
	digest   v1.Hash
	manifest *v1.Manifest
	config   *v1.ConfigFile
}

// describe reads and checks what a source says of its image.
func (s *Store) describe(src *source) (*described, error) {
	m, err := v1.ParseManifest(bytes.NewReader(src.manifest))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	var c v1.ConfigFile
	if err := json.Unmarshal(src.config, &c); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if err := checkBlob(src.config, m.Config.Digest); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	digest, _, err := v1.SHA256(bytes.NewReader(src.manifest))
	if err != nil {
		return nil, err
	}
	return &described{digest, m, &c}, errors.Join(checkLayers(m, &c), s.checkPlatform(&c), checkImageEnv(c.Config.Env))
}

func checkLayers(m *v1.Manifest, c *v1.ConfigFile) error {
	if len(m.Layers) != len(c.RootFS.DiffIDs) {
		return fmt.Errorf("%d layers, and %d digests of them", len(m.Layers), len(c.RootFS.DiffIDs))
	}
	if len(m.Layers) == 0 || len(m.Layers) > maxLayers {
		return fmt.Errorf("an image of %d layers: it is 1 to %d", len(m.Layers), maxLayers)
	}
	for i, d := range m.Layers {
		switch {
		case !d.MediaType.IsLayer():
			return fmt.Errorf("layer %s is of type %.100q", d.Digest, d.MediaType)
		case !d.MediaType.IsDistributable():
			return fmt.Errorf("layer %s is to be had elsewhere only", d.Digest)
		case d.Size < 0, d.Digest.Algorithm != "sha256", c.RootFS.DiffIDs[i].Algorithm != "sha256":
			return fmt.Errorf("layer %s of %d bytes", d.Digest, d.Size)
		}
	}
	return nil
}

func (s *Store) checkPlatform(c *v1.ConfigFile) error {
	if c.OS != s.platform.OS || c.Architecture != s.platform.Architecture {
		return fmt.Errorf("an image for %.40s/%.40s: this store is for %s", c.OS, c.Architecture, s.platform)
	}
	return nil
}

func checkImageEnv(env []string) error {
	size := 0
	for _, kv := range env {
		if key, _, ok := strings.Cut(kv, "="); !ok || key == "" || strings.ContainsRune(kv, 0) {
			return fmt.Errorf("environment: %.80q is not KEY=value", kv)
		}
		size += len(kv)
	}
	if size > maxEnv {
		return fmt.Errorf("an environment of %d bytes: at most %d", size, maxEnv)
	}
	return nil
}
