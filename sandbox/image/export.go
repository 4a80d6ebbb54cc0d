package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox"
)

// Export writes an image to where others can take it from: an archive if path
// ends in .tar, else an OCI layout in a folder that does not exist yet. The
// archive is an OCI layout and what "docker load" reads, in one; the latter
// takes layers in zstd only in its newer versions.
//
// The image is written as it came: its digest stays.
func (s *Store) Export(ctx context.Context, name, path string) iter.Seq2[Progress, error] {
	return progress(ctx, func(ctx context.Context, m *meter) error {
		h, err := s.find(name)
		if err != nil {
			return err
		}
		l, err := s.lock(ctx, imageLock(h), unix.LOCK_SH)
		if err != nil {
			return err
		}
		defer l.unlock()
		e := &export{Store: s, ctx: ctx, meter: m, name: tagOf(name)}
		if err := e.read(h); err != nil {
			return fmt.Errorf("export %.200s: %w", name, err)
		}
		if err := e.write(path); err != nil {
			return fmt.Errorf("export %.200s: %w", name, err)
		}
		m.done(h.String())
		return nil
	})
}

// tagOf is the name by which an exported image is found again.
func tagOf(name string) string {
	if n, err := parseName(name); err == nil && (n.ref != nil || n.short != "") {
		return n.String()
	}
	return "latest"
}

type export struct {
	*Store
	ctx      context.Context //nolint:containedctx // of the one call that it lives for
	meter    *meter
	name     string
	digest   v1.Hash
	raw      []byte
	manifest v1.Manifest
}

func (e *export) read(h v1.Hash) error {
	raw, err := os.ReadFile(e.blobPath(h))
	if errors.Is(err, fs.ErrNotExist) {
		return refused(sandbox.ErrNotFound, "%s is not in the store", h)
	}
	if err != nil {
		return err
	}
	e.digest, e.raw = h, raw
	if err := json.Unmarshal(raw, &e.manifest); err != nil {
		return err
	}
	e.meter.expect(e.manifest.Layers)
	e.meter.step("write")
	return nil
}

// files are those of the layout that are not blobs.
func (e *export) files() (map[string][]byte, error) {
	kind := e.manifest.MediaType
	if kind == "" {
		kind = types.OCIManifestSchema1
	}
	index, err := json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: kind, Size: int64(len(e.raw)), Digest: e.digest,
			Annotations: map[string]string{refName: e.name},
		}},
	})
	if err != nil {
		return nil, err
	}
	docker := dockerImage{Config: blobName(e.manifest.Config.Digest), RepoTags: []string{e.dockerTag()}}
	for _, d := range e.manifest.Layers {
		docker.Layers = append(docker.Layers, blobName(d.Digest))
	}
	list, err := json.Marshal([]dockerImage{docker})
	return map[string][]byte{
		"oci-layout":    []byte(`{"imageLayoutVersion":"1.0.0"}`),
		"index.json":    index,
		"manifest.json": list,
	}, err
}

func blobName(h v1.Hash) string { return path.Join("blobs", h.Algorithm, h.Hex) }

// dockerTag is the name as docker takes it, which is a repository and a tag.
func (e *export) dockerTag() string {
	if strings.Contains(e.name, "@") {
		repository, _, _ := strings.Cut(e.name, "@")
		return repository + ":latest"
	}
	if _, tag, ok := strings.Cut(path.Base(e.name), ":"); ok && tag != "" {
		return e.name
	}
	return e.name + ":latest"
}

func (e *export) blobs() []v1.Descriptor {
	list := []v1.Descriptor{{Digest: e.digest, Size: int64(len(e.raw))}, e.manifest.Config}
	seen := map[v1.Hash]bool{}
	for _, d := range e.manifest.Layers {
		if !seen[d.Digest] { // a layer can be in an image twice
			list = append(list, d)
		}
		seen[d.Digest] = true
	}
	return list
}

// write makes the archive or the folder, which is whole or not there.
func (e *export) write(to string) (err error) {
	if exists(to) {
		return &fs.PathError{Op: "create", Path: to, Err: fs.ErrExist}
	}
	files, err := e.files()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(to), ".export-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	made := filepath.Join(tmp, "image")
	var w layoutWriter = folderWriter(made)
	if strings.HasSuffix(to, ".tar") {
		f, err := os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		w = &archiveWriter{tar.NewWriter(f)}
	}
	if err := e.writeTo(w, files); err != nil {
		return err
	}
	return os.Rename(made, to)
}

func (e *export) writeTo(w layoutWriter, files map[string][]byte) error {
	for _, name := range []string{"oci-layout", "index.json", "manifest.json"} {
		if err := w.file(name, int64(len(files[name])), bytes.NewReader(files[name])); err != nil {
			return err
		}
	}
	layers := map[v1.Hash]bool{}
	for _, d := range e.manifest.Layers {
		layers[d.Digest] = true
	}
	for _, d := range e.blobs() {
		f, err := os.Open(e.blobPath(d.Digest))
		if err != nil {
			return err
		}
		r := withContext(e.ctx, f)
		if layers[d.Digest] {
			r = e.meter.reader(r)
		}
		if err := errors.Join(w.file(blobName(d.Digest), d.Size, r), f.Close()); err != nil {
			return err
		}
		if layers[d.Digest] {
			e.meter.layerDone()
		}
	}
	return w.Close()
}

// A layoutWriter is where a layout is written to.
type layoutWriter interface {
	file(name string, size int64, r io.Reader) error
	Close() error
}

type folderWriter string

func (w folderWriter) file(name string, _ int64, r io.Reader) error {
	at := filepath.Join(string(w), name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

func (w folderWriter) Close() error { return nil }

type archiveWriter struct{ *tar.Writer }

func (w *archiveWriter) file(name string, size int64, r io.Reader) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	_, err := io.Copy(w, r)
	return err
}
