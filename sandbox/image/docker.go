package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// fromArchive returns an image of an archive, as "docker save" or a tool for
// OCI layouts makes it.
func (s *Store) fromArchive(ctx context.Context, name, which string) (*source, error) {
	c, err := s.openArchive(ctx, name)
	if err != nil {
		return nil, err
	}
	var src *source
	_, isLayout := c.members["index.json"]
	_, isDocker := c.members["manifest.json"]
	switch {
	case isLayout:
		src, err = s.fromLayout(c, which)
	case isDocker:
		src, err = s.fromDocker(ctx, c, which)
	default:
		err = invalid("neither an OCI layout nor an archive of docker's")
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return src, nil
}

// A dockerImage is an element of an archive's manifest.json.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// fromDocker returns an image of docker's own archives. They have no manifest:
// one is made, so that the image has a digest, which is the same whenever it
// is read.
func (s *Store) fromDocker(ctx context.Context, c *archiveContents, which string) (*source, error) {
	b, err := readFile(c, "manifest.json")
	if err != nil {
		return nil, err
	}
	var list []dockerImage
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	image, err := chooseDocker(list, which)
	if err != nil {
		return nil, err
	}
	config, err := readFile(c, image.Config)
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	m.Config.MediaType = types.OCIConfigJSON
	if m.Config.Digest, m.Config.Size, err = v1.SHA256(bytes.NewReader(config)); err != nil {
		return nil, err
	}
	files := map[v1.Hash]string{}
	if len(image.Layers) > maxLayers {
		return nil, fmt.Errorf("%d layers", len(image.Layers))
	}
	for _, name := range image.Layers {
		d, err := describeLayer(ctx, c, name)
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, d)
		files[d.Digest] = name
	}
	manifest, err := json.Marshal(m)
	open := func(d v1.Descriptor) (io.ReadCloser, error) {
		name, ok := files[d.Digest]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return c.file(name)
	}
	return &source{manifest: manifest, config: config, open: open, close: c.Close}, err
}

func chooseDocker(list []dockerImage, which string) (*dockerImage, error) {
	var names []string
	for i, image := range list {
		if which == "" && len(list) == 1 || slices.Contains(image.RepoTags, which) {
			return &list[i], nil
		}
		names = append(names, image.RepoTags...)
	}
	if which == "" {
		return nil, invalid("%d images: name one as path#name, of %.500s", len(list), strings.Join(names, ", "))
	}
	return nil, invalid("no image %.100q: have %.500s", which, strings.Join(names, ", "))
}

// describeLayer says what a layer of an archive is.
func describeLayer(ctx context.Context, c contents, name string) (v1.Descriptor, error) {
	var d v1.Descriptor
	r, err := c.file(name)
	if err != nil {
		return d, err
	}
	defer r.Close()
	if d.Digest, d.Size, err = v1.SHA256(withContext(ctx, r)); err != nil {
		return d, err
	}
	again, err := c.file(name)
	if err != nil {
		return d, err
	}
	defer again.Close()
	_, kind, err := decompress(again)
	d.MediaType = types.OCIUncompressedLayer
	if kind != "" {
		d.MediaType += types.MediaType("+" + kind)
	}
	return d, err
}
