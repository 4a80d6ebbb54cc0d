package image

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// DefaultDir is where a Store keeps images when Config.Dir is empty.
const DefaultDir = "/var/lib/sandbox/images"

// Config says what a Store keeps and what may be asked of it. Its zero value
// is usable, and pulls nothing.
type Config struct {
	// Dir is the folder of the store, DefaultDir when empty. Several processes
	// may use one at a time. It must be on one file system.
	Dir string

	// Folders are folders in which leases may name archives, OCI layouts and
	// root file systems, by an absolute path. None may be named when it is
	// empty: an image can be read from inside.
	Folders []string

	// Dirs are images that are folders with a root file system, by name.
	Dirs map[string]string

	// Registries are those from which images may come. The first that fits a
	// reference is the one that counts.
	Registries []Registry

	// Platform is of which machine images are, as "linux/arm64"; this one's
	// when empty.
	Platform string

	// MaxImage is how many bytes an image may have, unpacked; 16 GiB when 0.
	MaxImage int64
	// MaxEntries is how many files, folders and links; two million when 0.
	MaxEntries int64
	// MaxStore is how many bytes GC leaves of images that can be pulled again;
	// 0 is no limit.
	MaxStore int64

	// Stall is how long a registry may say nothing; half a minute when 0.
	Stall time.Duration
}

// A Registry is a place that images may come from.
type Registry struct {
	// Host is the registry's host, with its port if it is not the usual one.
	// "*" is any other, provided that its addresses are public ones.
	Host string
	// Login uses the docker configuration of the user that this process runs
	// as. Without it the registry sees an anonymous client.
	Login bool
	// Orgs makes it a platform's own: a lease may name an image there only if
	// the first element of its path is the owner's organisation.
	Orgs bool
	// Shared are organisations whose images everyone may name all the same.
	Shared []string
	// HTTP speaks to it without TLS.
	HTTP bool
}

const (
	defaultMaxImage   = 16 << 30
	defaultMaxEntries = 2_000_000
	defaultStall      = 30 * time.Second
)

// complete fills in the defaults.
func (c *Config) complete() (platform *v1.Platform, err error) {
	if c.Dir, err = filepath.Abs(cmp.Or(c.Dir, DefaultDir)); err != nil {
		return nil, err
	}
	c.MaxImage = cmp.Or(c.MaxImage, defaultMaxImage)
	c.MaxEntries = cmp.Or(c.MaxEntries, defaultMaxEntries)
	c.Stall = cmp.Or(c.Stall, defaultStall)
	c.Platform = cmp.Or(c.Platform, "linux/"+runtime.GOARCH)
	platform, err = v1.ParsePlatform(c.Platform)
	if err != nil || platform.OS != "linux" || platform.Architecture == "" {
		return nil, invalid("platform %.40q: it is linux and an architecture, as linux/amd64", c.Platform)
	}
	c.Registries = slices.Clone(c.Registries)
	for i := range c.Registries {
		r := &c.Registries[i]
		if r.Host == anyHost {
			continue
		}
		registry, err := name.NewRegistry(r.Host)
		if r.Host == "" || err != nil {
			return nil, invalid("registry %.100q: not a host", r.Host)
		}
		r.Host = plainHost(registry.RegistryStr())
	}
	return platform, nil
}

// anyHost stands for registries that are not listed.
const anyHost = "*"

// plainHost is a host as it is compared, so that another way of writing it is
// no way around what is said of it.
func plainHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	return strings.TrimSuffix(host, ".")
}

// refusal is a sentence that is one of package sandbox's sentinels.
type refusal struct {
	text string
	kind error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.kind }

func refused(kind error, format string, args ...any) error {
	return &refusal{text: fmt.Sprintf(format, args...), kind: kind}
}
