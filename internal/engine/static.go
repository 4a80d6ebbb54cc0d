package engine

import (
	"errors"
	"io"
	"os"
)

// The parts of an ELF file that tell whether it is static: see elf(5). All
// machines that gVisor runs on are of 64 bits, lowest byte first.
const (
	elfMagic      = "\x7fELF\x02\x01"
	elfHeaderSize = 64
	offPhoff      = 32
	offPhentsize  = 54
	offPhnum      = 56
	typeInterp    = 3
)

// Static returns nil if the executable at path needs no dynamic linker, and
// ErrCgo if it does.
func Static(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var header [elfHeaderSize]byte
	if _, err := io.ReadFull(f, header[:]); err != nil || string(header[:len(elfMagic)]) != elfMagic {
		return &os.PathError{Op: "check", Path: path, Err: errors.New("not a Linux executable of 64 bits")}
	}
	for i := range number(header[offPhnum:], 2) {
		var kind [4]byte
		if _, err := f.ReadAt(kind[:], number(header[offPhoff:], 8)+i*number(header[offPhentsize:], 2)); err != nil {
			return err
		}
		if number(kind[:], 4) == typeInterp {
			return ErrCgo
		}
	}
	return nil
}

// number reads a number of n bytes.
func number(b []byte, n int) (v int64) {
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | int64(b[i])
	}
	return v
}
