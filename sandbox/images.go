//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hanzoai/sandbox/internal/hostview"
)

// Images finds root file systems by name. Local is the one of this machine
// alone; package sandbox/image has a store for those of others.
type Images interface {
	// Image returns the root file system that is asked for; an unknown name
	// is an error that matches ErrNotFound, one that may not be asked for
	// ErrInvalid. It may be called concurrently, also by several programs on
	// one Root.
	Image(ctx context.Context, want ImageRequest) (*Image, error)
}

// An ImageRequest says what root file system a sandbox is to have.
type ImageRequest struct {
	Name  string // as the caller wrote it, or the class's default
	Class string
	Owner Owner // who leases
	// Digest is the image's that the sandbox has had until now, if it is one
	// that starts again: it is to get the same, whatever Name stands for now.
	Digest string
	// Dir is a folder in which an implementation may keep what it makes.
	Dir string
	// Holder is the sandbox's own folder. It exists as long as the image is
	// in use, whatever becomes of this process: what it holds is not removed.
	Holder string
}

// An Image is a root file system. Sandboxes share it and cannot write to it.
// Folders that it lacks for what is mounted in every sandbox, as /mnt/data,
// are made in Root, empty, as OCI runtimes do.
type Image struct {
	Root   string   // the folder that is seen as "/"
	Binds  []Bind   // what is seen over it, read-only
	Env    []string // added to every command's environment, as KEY=value
	Digest string   // of its content, as sha256:…; "" where it has none
}

// A Bind shows a file or folder of this machine in an image.
type Bind struct{ Source, Target string }

// HostImage is the name of the image that shows this machine's own programs.
const HostImage = "host"

// Local is the Images of this machine alone. Image "host" is a curated,
// read-only view of its own /usr and toolchains, with an /etc made for the
// purpose: nothing of /root, /home, /var or /run, no keys, no tokens. Dirs are
// further images: a name for each folder that has a root file system in it.
// Folders are named by who configures the Runtime, never by who leases, since
// an image can be read from inside.
type Local struct {
	Dirs map[string]string

	host *hostCache // nil builds each time
}

// Cached returns a Local that looks at what has changed on the host once a
// minute, not at each lease. A Runtime does so by itself.
func (l Local) Cached() Local {
	if l.host == nil {
		l.host = &hostCache{}
	}
	return l
}

// Image implements Images.
func (l Local) Image(_ context.Context, want ImageRequest) (*Image, error) {
	if want.Name == HostImage {
		return l.host.image(filepath.Join(want.Dir, HostImage))
	}
	folder, ok := l.Dirs[want.Name]
	if !ok {
		return nil, &wrapped{text: fmt.Sprintf("image %.80q: have %s", want.Name, strings.Join(l.names(), ", ")), kind: ErrNotFound}
	}
	return dirImage(folder)
}

func (l Local) names() []string {
	names := []string{HostImage}
	for name := range l.Dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A hostCache saves a lease the look at what of the host has changed, which
// takes some milliseconds. Only the copies of settings can be old by that:
// programs are shown as they are.
type hostCache struct {
	mu    sync.Mutex
	built *Image
	at    time.Time
}

const hostCacheTime = time.Minute

func (c *hostCache) image(dir string) (*Image, error) {
	if c == nil {
		return hostImage(dir)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.built != nil && time.Since(c.at) < hostCacheTime {
		return c.built, nil
	}
	image, err := hostImage(dir)
	if err != nil {
		return nil, err
	}
	c.built, c.at = image, time.Now()
	return image, nil
}

func hostImage(dir string) (*Image, error) {
	view, err := hostview.Build(dir)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", HostImage, err)
	}
	image := &Image{Root: view.Root, Env: view.Env}
	for _, b := range view.Binds {
		image.Binds = append(image.Binds, Bind(b))
	}
	return image, nil
}

func dirImage(folder string) (*Image, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("image folder: %w", err)
	}
	if !info.IsDir() {
		return nil, invalid("image folder %s is not a folder", folder)
	}
	return &Image{Root: root}, nil
}
