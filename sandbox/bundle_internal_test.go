//go:build linux

package sandbox

import (
	"strconv"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestMemoryIsLeft: programs have the better part of the memory even when all
// file systems in it are full.
func TestMemoryIsLeft(t *testing.T) {
	for _, memory := range []int64{64 << 20, 4 << 30, 1 << 40} {
		is := is.New(t)
		used := int64(0)
		for _, m := range bundleSpec(placesOf("/dir", "/bin"), &Image{}, &layout{workdir: "/work", limits: Limits{Memory: memory}, disk: 1 << 40}).Mounts {
			if m.Type != "tmpfs" || m.Destination == "/dev" { // where only the init can write
				continue
			}
			size := int64(0)
			for _, o := range m.Options {
				if v, ok := strings.CutPrefix(o, "size="); ok {
					var err error
					size, err = strconv.ParseInt(v, 10, 64)
					is.NoErr(err)
				}
			}
			is.True(size > 0) // a tmpfs with no size may take all
			used += size
		}
		is.True(used > 0 && used < memory/2)
	}
}
