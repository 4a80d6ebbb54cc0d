package image_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
)

// names are those of the images in a store.
func names(t testing.TB, s *image.Store) string {
	t.Helper()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, info := range list {
		names = append(names, info.Names...)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestGC(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	s := open(t, image.Config{Dir: dir})
	base := files{"usr/tool": strings.Repeat("x", 1<<20)}
	for name, own := range map[string]files{"a": {"own": "a"}, "b": {"own": "b"}, "c": {"own": "c"}} {
		_, err := finish(s.Import(t.Context(), saved(t, newImage(t, base, own)), name))
		is.NoErr(err)
	}
	_, err := finish(s.Import(t.Context(), saved(t, newImage(t, base, files{"own": "a"})), "again"))
	is.NoErr(err) // a second name of a
	holder := filepath.Join(t.TempDir(), "holder")
	is.NoErr(os.Mkdir(holder, 0o700))
	used, err := s.Image(t.Context(), sandbox.ImageRequest{Name: "b", Dir: dir, Holder: holder})
	is.NoErr(err)

	done, err := s.GC(t.Context())
	is.NoErr(err)
	is.Equal(done, image.Collected{}) // all have names
	for _, name := range []string{"a", "b", "c"} {
		is.NoErr(s.Remove(name))
	}
	is.True(errors.Is(s.Remove("a"), sandbox.ErrNotFound))
	done, err = s.GC(t.Context())
	is.NoErr(err)
	is.Equal(done.Images, 1) // c: a has another name, b a user
	is.Equal(done.Layers, 1) // its own, not the one that they share
	is.Equal(done.Blobs, 3)
	is.Equal(names(t, s), "again")
	is.Equal(text(t, used, "own"), "b")

	is.NoErr(os.Remove(holder)) // as the end of a sandbox does
	done, err = s.GC(t.Context())
	is.NoErr(err)
	is.Equal(done.Images, 1)
	_, err = os.Stat(used.Root)
	is.True(errors.Is(err, os.ErrNotExist))

	is.NoErr(s.Remove("again"))
	done, err = s.GC(t.Context())
	is.NoErr(err)
	is.True(done.Bytes > 1<<20) // the shared layer, too
	is.Equal(len(leftIn(t, dir)), 0)
}

// A sandbox that starts again gets the image that it had.
func TestSameImage(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	s := h.store(t, image.Config{})
	old := newImage(t, files{"a": "1"})
	ref := h.push(t, "org/tools:1", old)
	holder := t.TempDir()
	want := sandbox.ImageRequest{Name: ref, Dir: t.TempDir(), Holder: holder}
	_, err := s.Image(t.Context(), want)
	is.NoErr(err)
	h.push(t, "org/tools:1", newImage(t, files{"a": "2"}))
	_, err = finish(s.Pull(t.Context(), ref))
	is.NoErr(err)
	_, err = s.GC(t.Context())
	is.NoErr(err)
	want.Digest = digestOf(t, old)
	again, err := s.Image(t.Context(), want)
	is.NoErr(err)
	is.Equal(text(t, again, "a"), "1")
	want.Digest = digestOf(t, newImage(t, files{"a": "3"}))
	_, err = s.Image(t.Context(), want)
	is.True(errors.Is(err, sandbox.ErrConflict)) // gone: not silently another
}

func TestRemoveByDigest(t *testing.T) {
	is := is.New(t)
	s := open(t, image.Config{})
	img := newImage(t, files{"a": "1"})
	for _, name := range []string{"a", "b"} {
		_, err := finish(s.Import(t.Context(), saved(t, img), name))
		is.NoErr(err)
	}
	is.NoErr(s.Remove(digestOf(t, img)))
	is.Equal(names(t, s), "")
}

// A store that is too big loses what can be had again, what was not used for
// the longest time first.
func TestMaxStore(t *testing.T) {
	is := is.New(t)
	h := newHub(t)
	s := h.store(t, image.Config{MaxStore: 5 << 20})
	var refs []string
	for i := range 4 {
		ref := h.push(t, fmt.Sprintf("org/tools:%d", i), newImage(t, files{"a": fmt.Sprint(i) + noise(1<<20)}))
		_, err := finish(s.Pull(t.Context(), ref))
		is.NoErr(err)
		refs = append(refs, ref)
	}
	_, err := finish(s.Import(t.Context(), saved(t, newImage(t, files{"b": noise(1 << 20)})), "mine"))
	is.NoErr(err)
	list, err := s.List()
	is.NoErr(err)
	for _, info := range list { // the second was used last
		at := time.Now().Add(-time.Hour)
		if slices.Contains(info.Names, refs[1]) {
			at = time.Now()
		}
		is.NoErr(os.Chtimes(filepath.Join(filepath.Dir(root(t, s, info)), "image.json"), at, at))
	}
	_, err = s.GC(t.Context())
	is.NoErr(err)
	is.Equal(names(t, s), refs[1]+" mine")
}

func root(t testing.TB, s *image.Store, info image.Info) string {
	t.Helper()
	holder := filepath.Join(t.TempDir(), "gone")
	img, err := s.Image(t.Context(), sandbox.ImageRequest{Name: info.Names[0], Dir: t.TempDir(), Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	return img.Root
}

// What a crash leaves in the middle of things is no image, and goes.
func TestAfterCrash(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	s := open(t, image.Config{Dir: dir})
	half := filepath.Join(dir, "tmp", "half", "layer", "tree")
	is.NoErr(os.MkdirAll(half, 0o700))
	is.NoErr(os.WriteFile(half+"/file", []byte("half"), 0o600))
	fresh := filepath.Join(dir, "tmp", "fresh")
	is.NoErr(os.Mkdir(fresh, 0o700))
	long := time.Now().Add(-time.Hour)
	is.NoErr(os.Chtimes(filepath.Join(dir, "tmp", "half"), long, long))
	done, err := s.GC(t.Context())
	is.NoErr(err)
	is.Equal(done.Temporary, 1)
	is.Equal(fmt.Sprint(leftIn(t, dir)), "[tmp/fresh]")

	// A layer that has come, without the image that it is for, is used.
	img := newImage(t, files{"a": "1"}, files{"b": "2"})
	path := saved(t, img)
	_, err = finish(s.Import(t.Context(), path, "x"))
	is.NoErr(err)
	is.NoErr(s.Remove("x"))
	is.NoErr(os.RemoveAll(filepath.Join(dir, "images")))
	s = open(t, image.Config{Dir: dir})
	_, err = finish(s.Import(t.Context(), path, "x"))
	is.NoErr(err)
	got, err := get(t, s, "x")
	is.NoErr(err)
	is.Equal(text(t, got, "a")+text(t, got, "b"), "12")
}

// Leases, imports and collections at the same time: what was leased stays.
func TestGCMeanwhile(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	s := open(t, image.Config{Dir: dir})
	path := saved(t, newImage(t, files{"shared": "x"}, files{"a": "1"}))
	stop := make(chan struct{})
	var collecting, wg sync.WaitGroup
	collecting.Go(func() {
		other := open(t, image.Config{Dir: dir})
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := other.GC(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var leased atomic.Int64
	for i := range 3 {
		wg.Go(func() {
			for n := range 15 {
				name := fmt.Sprintf("x%d", i)
				if _, err := finish(s.Import(t.Context(), path, name)); err != nil {
					t.Error(err)
					return
				}
				holder := filepath.Join(dir, fmt.Sprintf("holder%d-%d", i, n))
				if err := os.Mkdir(holder, 0o700); err != nil {
					t.Error(err)
				}
				got, err := s.Image(t.Context(), sandbox.ImageRequest{Name: name, Dir: dir, Holder: holder})
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Remove(name); err != nil {
					t.Error(err)
				}
				if b, err := os.ReadFile(got.Root + "/a"); string(b) != "1" {
					t.Error("an image that is in use is gone", err)
				}
				leased.Add(1)
				if err := os.Remove(holder); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	collecting.Wait()
	is.Equal(leased.Load(), int64(45))
}
