package volume_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/volume"
)

func TestName(t *testing.T) {
	is := is.New(t)
	is.Equal(volume.Name("Acme & Söhne", "web_shop/v2.0"), "m-acme--shne-web-shop-v2-0-c29e3941c09dbe7912db05e9df021240")
	ok := regexp.MustCompile(`^m-[a-z0-9-]{1,63}$`)
	seen := map[string]bool{}
	long := strings.Repeat("x", 500)
	for _, n := range [][2]string{
		{"a", "b"},
		{"a.b", "c"},
		{"a-b", "c"},
		{"a", "b-c"},
		{"a-b", ""},
		{"", "a-b"},
		{"", ""},
		{"A", "b"},
		{"a", "B"},
		{"../..", "/etc"},
		{"é", "世界"},
		{"e", "世界"},
		{"a\x00", "b"},
		{"a", "\x00b"},
		{"a\nb", "c"},
		{"\xff", "\xfe"},
		{long, long},
		{long + "y", long},
		{long, long + "y"},
	} {
		name := volume.Name(n[0], n[1])
		is.True(ok.MatchString(name) && len(name) <= 63)
		is.True(!seen[name]) // of another
		seen[name] = true
		is.Equal(name, volume.Name(n[0], n[1]))
	}
}

func TestBadNames(t *testing.T) {
	s, _ := openPlain(t)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/", "-a", "A", "a.b", "a_b", "a\x00", "é", strings.Repeat("a", 64)} {
		is := is.New(t)
		_, err := s.Mount(t.Context(), name, volume.MinSize, 0, 0)
		is.True(err != nil)
		_, err = s.Unmount(t.Context(), name)
		is.True(err != nil)
		is.True(s.Remove(t.Context(), name) != nil)
	}
	is := is.New(t)
	list, err := s.List()
	is.NoErr(err)
	is.Equal(len(list), 0)
}
