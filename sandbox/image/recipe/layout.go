package recipe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// Label is the label by which an image says by which recipe it was built.
const Label = "sandbox.recipe"

// layout writes an OCI layout whose one layer is an archive, as it comes.
func (b *build) layout(dir string, archive io.Reader) (*Built, error) {
	blobs := filepath.Join(dir, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return nil, err
	}
	diff := sha256.New()
	counted := &counter{r: io.TeeReader(archive, diff)}
	layer, size, err := compress(blobs, counted)
	if err != nil {
		return nil, err
	}
	config := b.config(digest(diff))
	configured, err := writeBlob(blobs, types.OCIConfigJSON, config)
	if err != nil {
		return nil, err
	}
	manifest, err := writeBlob(blobs, types.OCIManifestSchema1, v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: configured,
		Layers: []v1.Descriptor{{MediaType: types.OCILayerZStd, Digest: layer, Size: size}},
	})
	if err != nil {
		return nil, err
	}
	named := manifest
	named.Annotations = map[string]string{"org.opencontainers.image.ref.name": b.Name}
	named.Platform = &v1.Platform{OS: config.OS, Architecture: config.Architecture}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{named}})
	if err != nil {
		return nil, err
	}
	return &Built{Digest: manifest.Digest.String(), Size: size, Files: counted.n}, errors.Join(
		os.WriteFile(filepath.Join(dir, "index.json"), index, 0o644),
		os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644),
	)
}

// config is what the image says of itself. It has no time but the packages'.
func (b *build) config(diffID v1.Hash) *v1.ConfigFile {
	return &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Created: v1.Time{Time: b.updated},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diffID}},
		History: []v1.History{{Created: v1.Time{Time: b.updated}, CreatedBy: "sandbox-image build " + b.Name}},
		Config: v1.Config{
			Env: b.Env, User: "1000:1000", WorkingDir: "/mnt/data", Cmd: []string{"/bin/bash"},
			Labels: map[string]string{Label: b.Digest()},
		},
	}
}

// compress writes a reader's bytes as a zstd blob.
func compress(blobs string, r io.Reader) (v1.Hash, int64, error) {
	f, err := os.CreateTemp(blobs, ".layer-")
	if err != nil {
		return v1.Hash{}, 0, err
	}
	sum := sha256.New()
	// One thread, for an encoder's output depends on how many it has.
	z, err := zstd.NewWriter(io.MultiWriter(f, sum), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return v1.Hash{}, 0, errors.Join(err, f.Close())
	}
	_, err = io.Copy(z, r)
	err = errors.Join(err, z.Close())
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Chmod(0o644), f.Close()); err != nil {
		return v1.Hash{}, 0, err
	}
	h := digest(sum)
	return h, info.Size(), os.Rename(f.Name(), filepath.Join(blobs, h.Hex))
}

func digest(h hash.Hash) v1.Hash {
	d, err := v1.NewHash("sha256:" + hex.EncodeToString(h.Sum(nil)))
	if err != nil {
		panic(err) // it is a digest
	}
	return d
}

func writeBlob(blobs string, kind types.MediaType, value any) (v1.Descriptor, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return v1.Descriptor{}, err
	}
	h, n, err := v1.SHA256(bytes.NewReader(b))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: kind, Digest: h, Size: n}, os.WriteFile(filepath.Join(blobs, h.Hex), b, 0o644)
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
