package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
)

// hashLen is the length of a hash in a File: SHA-256, in hexadecimal.
const hashLen = 2 * sha256.Size

// A hasher passes on what it reads, and hashes it.
type hasher struct {
	src  io.Reader
	hash hash.Hash
	size int64
	err  error // the last of src
}

func newHasher(src io.Reader) *hasher { return &hasher{src: src, hash: sha256.New()} }

func (h *hasher) Read(p []byte) (int, error) {
	n, err := h.src.Read(p)
	h.hash.Write(p[:n])
	h.size += int64(n)
	h.err = err
	return n, err
}

func (h *hasher) sum() string { return hex.EncodeToString(h.hash.Sum(nil)) }
