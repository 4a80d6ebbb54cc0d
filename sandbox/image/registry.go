package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/hanzoai/sandbox/sandbox"
)

// fromRegistry returns an image in a registry.
func (s *Store) fromRegistry(ctx context.Context, ref name.Reference) (*source, error) {
	r, err := s.registry(ref)
	if err != nil {
		return nil, err
	}
	if r.HTTP {
		if ref, err = name.ParseReference(ref.Name(), name.Insecure); err != nil {
			return nil, err
		}
	}
	t := newTransport(s.cfg.Stall, r.Host == anyHost)
	src, err := s.ask(ctx, ref, r, t)
	if err != nil {
		t.CloseIdleConnections()
		return nil, registryError(ref, err)
	}
	src.close = func() error {
		t.CloseIdleConnections()
		return nil
	}
	return src, nil
}

func (s *Store) ask(ctx context.Context, ref name.Reference, r *Registry, t http.RoundTripper) (*source, error) {
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(t), remote.WithPlatform(*s.platform),
		remote.WithRetryBackoff(remote.Backoff{Duration: 300 * time.Millisecond, Factor: 3, Jitter: 0.1, Steps: 3}),
		remote.WithUserAgent("sandbox-image"),
	}
	if r.Login {
		options = append(options, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	}
	desc, err := remote.Get(ref, options...)
	if err != nil {
		return nil, err
	}
	image, err := desc.Image()
	if err != nil {
		return nil, err
	}
	m, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	if m.Config.Size > maxManifest {
		return nil, fmt.Errorf("a configuration of %d bytes", m.Config.Size)
	}
	src := &source{open: func(d v1.Descriptor) (io.ReadCloser, error) {
		layer, err := image.LayerByDigest(d.Digest)
		if err != nil {
			return nil, err
		}
		return layer.Compressed()
	}}
	if src.manifest, err = image.RawManifest(); err == nil {
		src.config, err = image.RawConfigFile()
	}
	return src, err
}

// registryError says which of the sentinels a registry's answer is.
func registryError(ref name.Reference, err error) error {
	kind := error(nil)
	if answer, ok := errors.AsType[*transport.Error](err); ok {
		switch answer.StatusCode {
		case http.StatusNotFound:
			kind = sandbox.ErrNotFound
		case http.StatusUnauthorized, http.StatusForbidden:
			kind = errDenied
		}
	}
	err = fmt.Errorf("image %.200s: %w", ref, err)
	if kind != nil {
		return &refusal{text: err.Error(), kind: errors.Join(kind, err)}
	}
	return err
}

// errDenied is a registry's refusal. That there is such an image is not said:
// the registry may not know either.
var errDenied = &refusal{text: "the registry refuses", kind: sandbox.ErrNotFound}
