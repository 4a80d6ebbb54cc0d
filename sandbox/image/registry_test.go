package image_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
)

// A hub is a registry over HTTP that can be made to behave badly.
type hub struct {
	host  string
	blobs atomic.Int64 // how often a layer was asked for

	mu   sync.Mutex
	meet func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

func newHub(t testing.TB) *hub {
	t.Helper()
	h := &hub{}
	next := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isBlob(r) {
			h.blobs.Add(1)
		}
		h.mu.Lock()
		meet := h.meet
		h.mu.Unlock()
		if meet == nil {
			next.ServeHTTP(w, r)
			return
		}
		meet(w, r, next)
	}))
	t.Cleanup(server.Close)
	h.host = strings.TrimPrefix(server.URL, "http://")
	return h
}

func isBlob(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/sha256:")
}

// behave says what the registry does from now on.
func (h *hub) behave(meet func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.meet = meet
}

// push puts an image there and returns its reference.
func (h *hub) push(t testing.TB, repository string, img v1.Image, options ...remote.Option) string {
	t.Helper()
	ref, err := name.ParseReference(h.host + "/" + repository)
	if err == nil {
		err = remote.Write(ref, img, options...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h.host + "/" + repository
}

func (h *hub) store(t testing.TB, cfg image.Config) *image.Store {
	t.Helper()
	cfg.Registries = append(cfg.Registries, image.Registry{Host: h.host, HTTP: true})
	return open(t, cfg)
}

func TestPull(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	img := newImage(t, files{"a": "1"}, files{"b": "2"})
	ref := h.push(t, "org/tools:1", img)
	s := h.store(t, image.Config{})
	got, err := get(t, s, ref)
	is.NoErr(err)
	is.Equal(got.Digest, digestOf(t, img))
	is.Equal(text(t, got, "a")+text(t, got, "b"), "12")

	// A tag stays what it was until it is pulled.
	next := newImage(t, files{"a": "2"})
	h.push(t, "org/tools:1", next)
	asked := h.blobs.Load()
	got, err = get(t, s, ref)
	is.NoErr(err)
	is.Equal(got.Digest, digestOf(t, img))
	is.Equal(h.blobs.Load(), asked)
	last, err := finish(s.Pull(t.Context(), ref))
	is.NoErr(err)
	is.Equal(last.Digest, digestOf(t, next))
	got, err = get(t, s, ref)
	is.NoErr(err)
	is.Equal(text(t, got, "a"), "2")

	// A digest cannot change.
	got, err = get(t, s, h.host+"/org/tools@"+digestOf(t, img))
	is.NoErr(err)
	is.Equal(text(t, got, "a"), "1")
	_, err = get(t, s, h.host+"/org/tools:none")
	is.True(errors.Is(err, sandbox.ErrNotFound))
}

func TestPlatforms(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: imageFor(t, "arm64", files{"arch": "arm64"}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: imageFor(t, "amd64", files{"arch": "amd64"}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
	)
	ref, err := name.ParseReference(h.host + "/org/many:1")
	is.NoErr(err)
	is.NoErr(remote.WriteIndex(ref, index))
	for _, arch := range []string{"amd64", "arm64"} {
		got, err := get(t, h.store(t, image.Config{Platform: "linux/" + arch}), ref.Name())
		is.NoErr(err)
		is.Equal(text(t, got, "arch"), arch)
	}
	_, err = get(t, h.store(t, image.Config{Platform: "linux/riscv64"}), ref.Name())
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "riscv64"))
	one := h.push(t, "org/one:1", imageFor(t, "arm64", files{"a": ""}))
	_, err = get(t, h.store(t, image.Config{Platform: "linux/amd64"}), one)
	is.True(err != nil)
	is.True(strings.Contains(err.Error(), "arm64"))
}

func TestAllowedRegistries(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	ref := h.push(t, "org/tools:1", newImage(t, files{"a": ""}))
	_, err := get(t, open(t, image.Config{}), ref)
	is.True(errors.Is(err, sandbox.ErrInvalid)) // none by default
	_, err = finish(open(t, image.Config{}).Pull(t.Context(), ref))
	is.True(errors.Is(err, sandbox.ErrInvalid))
	asked := h.blobs.Load()
	_, err = get(t, open(t, image.Config{Registries: []image.Registry{{Host: "*", HTTP: true}}}), ref)
	is.True(err != nil) // any is not this network's own
	is.True(strings.Contains(err.Error(), "not a public address"))
	is.Equal(h.blobs.Load(), asked)
}

// A lease may name what is its own organisation's on a platform's registry.
func TestOrgs(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	img := newImage(t, files{"a": "1"})
	for _, repository := range []string{"acme/tools:1", "other/tools:1", "shared/tools:1", "top:1", "acme2/x:1"} {
		h.push(t, repository, img)
	}
	s := open(t, image.Config{Registries: []image.Registry{{Host: h.host, HTTP: true, Orgs: true, Shared: []string{"shared"}}}})
	ask := func(org, repository string) error {
		_, err := s.Image(t.Context(), sandbox.ImageRequest{
			Name: h.host + "/" + repository, Owner: sandbox.Owner{Org: org}, Dir: t.TempDir(), Holder: t.TempDir(),
		})
		return err
	}
	is.NoErr(ask("acme", "acme/tools:1"))
	is.NoErr(ask("acme", "shared/tools:1"))
	is.NoErr(ask("", "shared/tools:1"))
	for _, c := range [][2]string{
		{"other", "acme/tools:1"}, // though the store has it
		{"acme", "other/tools:1"},
		{"acme", "acme2/x:1"},
		{"acme", "top:1"},
		{"", "acme/tools:1"},
		{"top", "top:1"},
		{"acme", "acme/tools@" + digestOf(t, img) + "x"},
		{"acme", "other/../acme/tools:1"},
		{"library", "top:1"},
	} {
		is.True(errors.Is(ask(c[0], c[1]), sandbox.ErrInvalid))
	}
	err := ask("other", "other/tools@"+digestOf(t, img))
	is.NoErr(err) // it is there as well
}

// One way of writing a host is as good as another.
func TestHostSpellings(t *testing.T) {
	is := is.New(t)
	s := open(t, image.Config{Registries: []image.Registry{{Host: "Registry.Example", Orgs: true}, {Host: "*"}}})
	for _, host := range []string{"registry.example", "REGISTRY.EXAMPLE", "registry.example:443"} {
		_, err := s.Image(t.Context(), sandbox.ImageRequest{Name: host + "/org/x:1", Dir: t.TempDir()})
		is.True(errors.Is(err, sandbox.ErrInvalid))
		is.True(strings.Contains(err.Error(), "organisation") || strings.Contains(err.Error(), "repository"))
	}
}

// secured is a registry that wants a name and a password for a token.
func secured(w http.ResponseWriter, r *http.Request, next http.Handler) {
	switch {
	case r.URL.Path == "/token":
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": "the-token"})
	case r.Header.Get("Authorization") != "Bearer the-token":
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=\"http://%s/token\",service=%q", r.Host, r.Host))
		http.Error(w, "no token", http.StatusUnauthorized)
	default:
		next.ServeHTTP(w, r)
	}
}

func TestLogin(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	img := newImage(t, files{"a": "1"})
	h.behave(secured)
	ref := h.push(t, "org/tools:1", img, remote.WithAuth(&authn.Basic{Username: "me", Password: "secret"}))
	_, err := get(t, h.store(t, image.Config{}), ref)
	is.True(errors.Is(err, sandbox.ErrNotFound)) // anonymous

	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	auth := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	is.NoErr(os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, h.host, auth), 0o600))
	_, err = get(t, h.store(t, image.Config{}), ref)
	is.True(err != nil) // logging in is asked for
	got, err := get(t, open(t, image.Config{Registries: []image.Registry{{Host: h.host, HTTP: true, Login: true}}}), ref)
	is.NoErr(err)
	is.Equal(text(t, got, "a"), "1")
}

// empty reports what is left in a store of an image that was not taken.
func leftIn(t testing.TB, dir string) (left []string) {
	t.Helper()
	for _, sub := range []string{"blobs/sha256", "layers", "images", "names", "uses", "tmp"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, sub+"/"+e.Name())
		}
	}
	return left
}

// What is not what its digest says is an error that says so, and nothing of it
// is kept.
func TestWrongDigest(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	img := newImage(t, files{"a": strings.Repeat("1", 100)})
	ref := h.push(t, "org/tools:1", img)
	digest, size := firstLayer(t, img)
	config, err := img.ConfigName()
	is.NoErr(err)
	for what, meet := range map[string]func(w http.ResponseWriter, r *http.Request, next http.Handler){
		"layer": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, digest) {
				fmt.Fprint(w, strings.Repeat("x", int(size)))
				return
			}
			next.ServeHTTP(w, r)
		},
		"configuration": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, config.String()) {
				next.ServeHTTP(&spoil{w}, r)
				return
			}
			next.ServeHTTP(w, r)
		},
		"manifest": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/manifests/") {
				next.ServeHTTP(&spoil{w}, r)
				return
			}
			next.ServeHTTP(w, r)
		},
	} {
		t.Run(what, func(t *testing.T) {
			is := is.New(t)
			dir := t.TempDir()
			h.behave(meet)
			_, err := get(t, h.store(t, image.Config{Dir: dir}), strings.Replace(ref, ":1", "@"+digestOf(t, img), 1))
			is.True(err != nil)
			is.True(strings.Contains(err.Error(), "digest") || strings.Contains(err.Error(), "sha256")) // says what is wrong
			is.Equal(len(leftIn(t, dir)), 0)                                                            // nothing kept
			h.behave(nil)
		})
	}
}

// spoil changes the first byte of a response's body, and keeps it JSON.
type spoil struct{ http.ResponseWriter }

func (s *spoil) Write(b []byte) (int, error) {
	changed := append([]byte(" "), b[:len(b)-1]...)
	n, err := s.ResponseWriter.Write(changed)
	return n, err
}

func TestSilentRegistry(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	img := newImage(t, files{"a": noise(1 << 20)})
	ref := h.push(t, "org/tools:1", img)
	digest, size := firstLayer(t, img)
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	h.behave(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasSuffix(r.URL.Path, digest) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		fmt.Fprint(w, "\x1f\x8b")
		w.(http.Flusher).Flush()
		select {
		case <-released:
		case <-r.Context().Done():
		}
	})
	dir := t.TempDir()
	start := time.Now()
	_, err := get(t, h.store(t, image.Config{Dir: dir, Stall: 200 * time.Millisecond}), ref)
	is.True(errors.Is(err, sandbox.ErrTimeout))
	is.True(strings.Contains(err.Error(), "said nothing"))
	is.True(time.Since(start) < 20*time.Second)
	is.Equal(len(leftIn(t, dir)), 0)

	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, sandbox.ErrTimeout)
	defer cancel()
	_, err = finish(h.store(t, image.Config{Dir: dir}).Pull(ctx, ref))
	is.True(errors.Is(err, sandbox.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)) // the caller's time counts, too
	is.Equal(len(leftIn(t, dir)), 0)
}

func firstLayer(t testing.TB, img v1.Image) (digest string, size int64) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	h, err := layers[0].Digest()
	if err == nil {
		size, err = layers[0].Size()
	}
	if err != nil {
		t.Fatal(err)
	}
	return h.String(), size
}

// noise does not compress.
func noise(n int) string {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return string(b)
}

// A connection that breaks is tried again.
func TestBrokenConnection(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	img := newImage(t, files{"a": noise(1 << 20)})
	ref := h.push(t, "org/tools:1", img)
	digest, _ := firstLayer(t, img)
	var times atomic.Int64
	h.behave(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, digest) && r.Method == http.MethodGet && times.Add(1) == 1 {
			next.ServeHTTP(&cut{w, 100 << 10}, r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	last, err := finish(h.store(t, image.Config{}).Pull(t.Context(), ref))
	is.NoErr(err)
	is.Equal(last.Bytes, last.Total) // what was lost is not counted
	is.True(times.Load() > 1)

	h.behave(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if isBlob(r) {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})
	dir := t.TempDir()
	_, err = get(t, h.store(t, image.Config{Dir: dir}), ref)
	is.True(err != nil)
	is.Equal(len(leftIn(t, dir)), 0)
}

// cut takes so many bytes of a body.
type cut struct {
	http.ResponseWriter
	n int
}

func (c *cut) Write(b []byte) (int, error) {
	n := min(len(b), c.n)
	c.n -= n
	if _, err := c.ResponseWriter.Write(b[:n]); err != nil {
		return n, err
	}
	return len(b), nil
}

// Many who want one image at a time fetch its layers once.
func TestConcurrentPulls(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	img := newImage(t, files{"a": noise(1 << 20)}, files{"b": noise(1 << 20)})
	ref := h.push(t, "org/tools:1", img)
	dir := t.TempDir()
	before := h.blobs.Load()
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 8 {
		s := h.store(t, image.Config{Dir: dir}) // as another process has
		wg.Go(func() {
			got, err := s.Image(t.Context(), sandbox.ImageRequest{Name: ref, Dir: dir, Holder: dir})
			if err != nil || got.Digest != digestOf(t, img) {
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	is.Equal(failed.Load(), int64(0))
	is.True(h.blobs.Load()-before <= 2+8) // two layers once, the configuration eight times at most
}
