package blind

import (
	"bytes"
	"strings"
	"testing"

	"github.com/matryer/is"
)

func hidden(blind []string, pieces ...string) string {
	var out bytes.Buffer
	b := New(&out, Secrets(blind))
	for _, p := range pieces {
		b.Write([]byte(p))
	}
	b.Close()
	return out.String()
}

func TestBlind(t *testing.T) {
	const secret, longer = "12345678", "12345678abcdef"
	for name, c := range map[string]struct {
		blind, pieces []string
		want          string
	}{
		"whole":                  {[]string{secret}, []string{"a 12345678 b"}, "a [redacted] b"},
		"over a border":          {[]string{secret}, []string{"a 1234", "5678 b"}, "a [redacted] b"},
		"byte by byte":           {[]string{secret}, strings.Split("a12345678b", ""), "a[redacted]b"},
		"twice in a row":         {[]string{secret}, []string{secret + secret}, "[redacted][redacted]"},
		"not whole":              {[]string{secret}, []string{"a 1234567"}, "a 1234567"},
		"begun anew":             {[]string{secret}, []string{"1234512345678"}, "12345[redacted]"},
		"the longer of two":      {[]string{secret, longer}, []string{longer + "x"}, "[redacted]x"},
		"the shorter of two":     {[]string{secret, longer}, []string{"12345678abc", "x"}, "[redacted]abcx"},
		"the shorter at the end": {[]string{secret, longer}, []string{"12345678abc"}, "[redacted]abc"},
		"short":                  {[]string{"1234567"}, []string{"1234567"}, "1234567"},
		"in JSON":                {[]string{"a\"b\\c<d\te"}, []string{`"a\"b\\c<d\te" "a\"b\\c\u003cd\te"`}, `"[redacted]" "[redacted]"`},
		"nothing":                {[]string{secret}, nil, ""},
		"repeats":                {[]string{"aaaaaaaa"}, []string{strings.Repeat("a", 17)}, "[redacted][redacted]a"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			is.Equal(hidden(c.blind, c.pieces...), c.want)
		})
	}
}

// FuzzBlind cuts an output anywhere: it reads the same, and has no secret.
func FuzzBlind(f *testing.F) {
	f.Add("some s3cr3ts3cr3t text", "s3cr3ts3cr3t", "cr3ts3cr", 7, 9)
	f.Fuzz(func(t *testing.T, text, one, two string, i, j int) {
		blind := []string{one, two}
		whole := hidden(blind, text)
		i, j = min(max(i, 0), len(text)), min(max(j, 0), len(text))
		if i > j {
			i, j = j, i
		}
		if cut := hidden(blind, text[:i], text[i:j], text[j:]); cut != whole {
			t.Errorf("%q in pieces is %q, and whole %q", text, cut, whole)
		}
		if len(Secrets(blind)) == 0 && whole != text {
			t.Errorf("%q became %q", text, whole)
		}
	})
}
