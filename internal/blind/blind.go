// Package blind hides secrets in what programs say.
package blind

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

const (
	// minSecret is how long a secret must be to be hidden: shorter ones are
	// words that would make holes all over an output.
	minSecret = 8
	redacted  = "[redacted]"
)

// Secrets are the spellings of what is to be hidden, longest first: as they
// are, as in JSON, and each line of those that have several, but for the
// armour of keys.
func Secrets(blind []string) [][]byte {
	seen := map[string]bool{}
	add := func(s string) {
		if len(s) >= minSecret {
			seen[s] = true
		}
	}
	for _, s := range blind {
		if len(s) < minSecret {
			continue
		}
		add(s)
		for _, escapeHTML := range []bool{true, false} {
			add(inJSON(s, escapeHTML))
		}
		if !strings.ContainsAny(s, "\r\n") {
			continue
		}
		for line := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
				add(line)
			}
		}
	}
	var list [][]byte
	for s := range seen {
		list = append(list, []byte(s))
	}
	slices.SortFunc(list, func(a, b []byte) int { return len(b) - len(a) })
	return list
}

func inJSON(s string, escapeHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if e.Encode(s) != nil {
		return ""
	}
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

// A Writer writes what it is given without the secrets in it, also where one
// comes in pieces. It holds back what may be the beginning of one.
type Writer struct {
	w       io.Writer
	secrets [][]byte
	first   [256]bool // what they begin with
	held    []byte
}

// New returns a Writer to w. Close writes what it holds back.
func New(w io.Writer, secrets [][]byte) *Writer {
	b := &Writer{w: w, secrets: secrets}
	for _, s := range secrets {
		b.first[s[0]] = true
	}
	return b
}

func (b *Writer) Write(p []byte) (int, error) {
	b.held = append(b.held, p...)
	out, rest := b.hide(b.held)
	b.held = append(b.held[:0], rest...)
	if len(out) == 0 {
		return len(p), nil
	}
	_, err := b.w.Write(out)
	return len(p), err
}

// hide replaces the secrets in p and returns the part that may go, and the
// rest, which may become one.
func (b *Writer) hide(p []byte) (out, rest []byte) {
	for i := 0; i < len(p); {
		if !b.first[p[i]] {
			out = append(out, p[i])
			i++
			continue
		}
		if n := b.at(p[i:]); n > 0 {
			out = append(out, redacted...)
			i += n
			continue
		}
		if b.begins(p[i:]) {
			return out, p[i:]
		}
		out = append(out, p[i])
		i++
	}
	return out, nil
}

// at is the length of the longest secret that p begins with; a longer one that
// p may still become is waited for.
func (b *Writer) at(p []byte) int {
	for _, s := range b.secrets {
		if bytes.HasPrefix(p, s) {
			return len(s)
		}
		if len(p) < len(s) && bytes.HasPrefix(s, p) {
			return 0
		}
	}
	return 0
}

// begins reports whether p is the beginning of a secret.
func (b *Writer) begins(p []byte) bool {
	for _, s := range b.secrets {
		if len(p) < len(s) && bytes.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// Close writes what was held back: the whole of a secret never came, but a
// shorter one may be in it.
func (b *Writer) Close() error {
	var out []byte
	for p := b.held; len(p) > 0; {
		n := 0
		for _, s := range b.secrets {
			if bytes.HasPrefix(p, s) {
				n = len(s)
				break
			}
		}
		if n > 0 {
			out, p = append(out, redacted...), p[n:]
			continue
		}
		out, p = append(out, p[0]), p[1:]
	}
	b.held = nil
	if len(out) == 0 {
		return nil
	}
	_, err := b.w.Write(out)
	return err
}
