package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

const (
	maxName = 63 // a DNS label
	maxSlug = (maxName - len("m---") - hashLen) / 2
	hashLen = 32
)

// Name is the name of the volume of an organisation's project. It can be read,
// and two projects whose names look the same in it have different ones: they
// differ in the hash of both names in full.
func Name(org, project string) string {
	// A NUL in the first must not look like the end of it.
	sum := sha256.Sum256([]byte(escapeNUL.Replace(org) + "\x00" + project))
	return "m-" + slug(org) + "-" + slug(project) + "-" + hex.EncodeToString(sum[:])[:hashLen]
}

var escapeNUL = strings.NewReplacer("\x00", "\x01\x00", "\x01", "\x01\x01")

// slug keeps what may be in a name of what people call things.
func slug(s string) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			return c
		case strings.ContainsRune("-_/. ", c):
			return '-'
		}
		return -1
	}, strings.ToLower(s))
	return s[:min(len(s), maxSlug)]
}

var errName = errors.New("a name has 1 to 63 of a-z, 0-9 and -, and begins with none of the last")

// checkName keeps names from being paths.
func checkName(name string) error {
	if name == "" || len(name) > maxName || name[0] == '-' || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return named(name, errName)
	}
	return nil
}
