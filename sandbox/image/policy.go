package image

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/hanzoai/sandbox/sandbox"
)

// registry returns what the configuration says of a reference's registry.
func (s *Store) registry(ref name.Reference) (*Registry, error) {
	host := plainHost(ref.Context().RegistryStr())
	for i, r := range s.cfg.Registries {
		if r.Host == anyHost || r.Host == host {
			return &s.cfg.Registries[i], nil
		}
	}
	return nil, invalid("image %.200s: registry %.100s is not one that images may come from", ref, host)
}

// mayName refuses an image that a lease's owner may not name. What a node can
// pull is more than each who leases from it may read.
func (s *Store) mayName(ref name.Reference, owner sandbox.Owner) error {
	r, err := s.registry(ref)
	if err != nil || !r.Orgs {
		return err
	}
	org, _, nested := strings.Cut(ref.Context().RepositoryStr(), "/")
	if nested && (owner.Org != "" && org == owner.Org || slices.Contains(r.Shared, org)) {
		return nil
	}
	return invalid("image %.200s: on %s an image's path begins with the organisation that leases", ref, r.Host)
}

// mayOpen refuses a path that no lease may name, and returns where it really
// is.
func (s *Store) mayOpen(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	for _, folder := range s.cfg.Folders {
		if err != nil {
			break
		}
		top, wrong := filepath.EvalSymlinks(folder)
		if wrong != nil {
			continue
		}
		if rel, wrong := filepath.Rel(top, real); wrong == nil && filepath.IsLocal(rel) {
			return real, nil
		}
	}
	// Whether it exists is nobody's business.
	return "", invalid("image %.200q: there is no such image in the folders that leases may name", path)
}
