package initd

import (
	"strings"
	"testing"
	"testing/quick"
)

func TestJoin(t *testing.T) {
	for _, c := range []struct{ dir, name, want string }{
		{"/d", "n", "/d/n"},
		{"/d/", "n", "/d/n"},
		{"/", "n", "/n"},
		{"", "n", "n"},
		{"/d", "/n", "/n"},
		{"", "/n", "/n"},
		{"/d", "", "/d/"},
		{"/d", "../n", "/d/../n"}, // where that leads, only the kernel knows
		{"/d", "./n", "/d/./n"},
		{"/d", "n/", "/d/n/"},
	} {
		if got := join(c.dir, c.name); got != c.want {
			t.Errorf("join(%q, %q) = %q, want %q", c.dir, c.name, got, c.want)
		}
	}
}

func TestBaseAndFolder(t *testing.T) {
	for path, want := range map[string][2]string{
		"/d/n":    {"/d/", "n"},
		"/n":      {"/", "n"},
		"n":       {"", "n"},
		"/d/":     {"/d/", ""},
		"/":       {"/", ""},
		"":        {"", ""},
		"/l/../n": {"/l/../", "n"},
	} {
		if got := [2]string{folder(path), base(path)}; got != want {
			t.Errorf("%q is %q", path, got)
		}
	}
	whole := func(path string) bool {
		return folder(path)+base(path) == path && !strings.Contains(base(path), "/")
	}
	if err := quick.Check(whole, nil); err != nil {
		t.Error(err)
	}
}

// TestLikeStrings compares with the package that these stand in for.
func TestLikeStrings(t *testing.T) {
	mix := func(s string) string {
		return strings.Map(func(r rune) rune { return []rune{'a', ' ', '/', ':', '=', 'b', ' ', 'é'}[r%8] }, s)
	}
	same := func(s string) bool {
		s = mix(s)
		for _, sep := range []byte(" /:=") {
			before, after, found := strings.Cut(s, string(sep))
			b, a, f := cut(s, sep)
			if b != before || a != after || f != found {
				return false
			}
		}
		return strings.Join(fields(s), "|") == strings.Join(strings.Fields(s), "|")
	}
	if err := quick.Check(same, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}
