package image

import (
	"errors"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/hanzoai/sandbox/sandbox/image/internal/tree"
)

// size is what the images of the store take, but for folders and trifles.
func (s *Store) size() (size int64, err error) {
	entries, err := os.ReadDir(s.path(blobsDir))
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
	}
	images, err := s.List()
	if err != nil {
		return 0, err
	}
	counted := map[string]bool{}
	for _, info := range images {
		for _, l := range info.Layers {
			_, hex, _ := strings.Cut(l, ":")
			var layer tree.Layer
			if counted[hex] || readJSON(s.path(layersDir, hex, layerFile), &layer) != nil {
				continue
			}
			counted[hex] = true
			size += layer.Bytes
		}
	}
	return size, nil
}

// evict forgets the names of the image that has not been used for the longest
// time, of those that can be pulled again and that no sandbox has.
func (g *collector) evict() (bool, error) {
	images, err := g.List()
	if err != nil {
		return false, err
	}
	slices.SortFunc(images, func(a, b Info) int { return a.Used.Compare(b.Used) })
	for _, info := range images {
		h, err := v1.NewHash(info.Digest)
		if err != nil {
			return false, err
		}
		used, err := g.used(h)
		if err != nil {
			return false, err
		}
		if used || len(info.Names) == 0 || !g.canReturn(info.Names) {
			continue
		}
		var errs []error
		for _, name := range info.Names {
			errs = append(errs, os.Remove(g.namePath(name)))
		}
		return true, errors.Join(errs...)
	}
	return false, nil
}

// canReturn reports whether all names are of images that are kept elsewhere.
func (g *collector) canReturn(names []string) bool {
	for _, name := range names {
		r, err := g.readName(name)
		if err != nil || r.Source != sourcePulled && r.Source != sourcePath {
			return false
		}
	}
	return true
}
