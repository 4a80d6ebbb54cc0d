package engine

import (
	"debug/elf"
	"fmt"
	"os"
)

func static(f *os.File) error {
	e, err := elf.NewFile(f)
	if err != nil {
		return fmt.Errorf("%s is not a Linux executable: %w", f.Name(), err)
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_INTERP {
			return ErrCgo
		}
	}
	return nil
}
