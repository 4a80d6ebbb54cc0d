package wire

// Numbers as encoding/binary has them. That package stands behind package
// reflect, for which the init would have to wait: see package guest.

// appendUvarint appends n, seven bits a byte, the lowest first.
func appendUvarint(b []byte, n uint64) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// uvarint returns the number at the start of b and its length, which is 0 if
// there is none.
func uvarint(b []byte) (n uint64, length int) {
	for i, c := range b {
		if i == 10 || i == 9 && c > 1 {
			return 0, 0
		}
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

// le16 and le32 are numbers of fixed length, the lowest byte first.

func le16(b []byte) uint16 { return uint16(b[0]) | uint16(b[1])<<8 }

func appendLE16(b []byte, n uint16) []byte { return append(b, byte(n), byte(n>>8)) }

func le32(b []byte) uint32 { return uint32(le16(b)) | uint32(le16(b[2:]))<<16 }

func putLE32(b []byte, n uint32) {
	b[0], b[1], b[2], b[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
}
