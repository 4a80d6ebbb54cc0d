package wire

// A message is a row of fields: a tag, the length of the value, the value.
// Numbers are uvarints, and a zero value is left out.

type value []byte

func (v value) string() string { return string(v) }

func (v value) uint() uint64 {
	n, _ := uvarint(v)
	return n
}

func putBytes(b []byte, tag byte, v []byte) []byte {
	b = appendUvarint(append(b, tag), uint64(len(v)))
	return append(b, v...)
}

func putString(b []byte, tag byte, s string) []byte {
	if s == "" {
		return b
	}
	b = appendUvarint(append(b, tag), uint64(len(s)))
	return append(b, s...)
}

// putStrings keeps empty strings: an empty argument is an argument.
func putStrings(b []byte, tag byte, list []string) []byte {
	for _, s := range list {
		b = appendUvarint(append(b, tag), uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

func putUint(b []byte, tag byte, n uint64) []byte {
	if n == 0 {
		return b
	}
	return putBytes(b, tag, appendUvarint(make([]byte, 0, 10), n))
}

func putBool(b []byte, tag byte, v bool) []byte {
	if !v {
		return b
	}
	return putUint(b, tag, 1)
}

// eachField calls set with every field of b.
func eachField(b []byte, set func(tag byte, v value) error) error {
	for len(b) > 0 {
		tag := b[0]
		n, used := uvarint(b[1:])
		if used <= 0 || n > uint64(len(b)-1-used) {
			return errMalformed
		}
		start := 1 + used
		if err := set(tag, value(b[start:start+int(n)])); err != nil {
			return err
		}
		b = b[start+int(n):]
	}
	return nil
}
