package server

import "unicode/utf8"

// maxOutput bounds each stream of an answer that is a value. A stream of
// events has no bound.
const maxOutput = 1 << 20

// truncated is the last line of a stream that was cut.
const truncated = "\n[truncated at 1MiB]"

// A capture keeps the first of what a program writes, and lets it write on.
type capture struct {
	buf []byte
	cut bool
}

func (c *capture) Write(p []byte) (int, error) {
	room := maxOutput - len(c.buf)
	if len(p) > room {
		c.cut = true
	}
	c.buf = append(c.buf, p[:min(len(p), room)]...)
	return len(p), nil
}

// String is the text, of which no rune is cut. That it is UTF-8 is JSON's to
// see to.
func (c *capture) String() string {
	b := c.buf
	if c.cut {
		b = b[:wholeRunes(b)]
	}
	text := string(b)
	if c.cut {
		text += truncated
	}
	return text
}

// wholeRunes is the length of b without a rune that its end cuts.
func wholeRunes(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if utf8.FullRune(b[len(b)-i:]) {
				return len(b)
			}
			return len(b) - i
		}
	}
	return len(b)
}
