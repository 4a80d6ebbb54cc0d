package exec

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// fileIDLen is the length of sandbox ids too: there are clients that take ids
// of no other.
const fileIDLen = 21

// FileID returns the id of the file path in a session: 21 characters of
// A-Z, a-z, 0-9, - and _, which it takes from a hash of the two. So no table
// of ids is needed, and none can disagree with the files.
func FileID(session, path string) string {
	sum := sha256.Sum256([]byte(session + "\x00" + path))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:fileIDLen]
}

// mayBeID reports whether s has the form of a file's id. It may be a path all
// the same.
func mayBeID(s string) bool {
	return len(s) == fileIDLen && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
