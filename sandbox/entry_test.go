//go:build linux

package sandbox_test

import (
	"bytes"
	"os"
	osexec "os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest"
)

// startAs starts this test binary under another name. As the init it ends at
// once, because it is not process 1.
func startAs(name string, env ...string) (stderr string, took time.Duration) {
	var out bytes.Buffer
	cmd := osexec.Command("/proc/self/exe", "-test.run=^$", "x")
	cmd.Args[0], cmd.Stderr, cmd.Env = name, &out, env
	start := time.Now()
	cmd.Run()
	return out.String(), time.Since(start)
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @`)

// initialised lists the packages that Go has initialised, or was just
// initialising, when the process ended.
func initialised(name string) []string {
	trace, _ := startAs(name, "GODEBUG=inittrace=1")
	var list []string
	for _, m := range initLine.FindAllStringSubmatch(trace, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestInitIsEnteredEarly(t *testing.T) {
	is := is.New(t)
	trace, _ := startAs(guest.Init)
	is.True(strings.Contains(trace, "sandbox init")) // it was the init
	early, all := initialised(guest.Init), initialised("test")
	t.Logf("the init is entered after %d of %d packages", len(early), len(all))
	is.True(len(early) < 30 && len(early) < len(all)/2)
	for _, pkg := range early {
		heavy := slices.Contains([]string{"net", "net/http", "encoding/json", "reflect", "unicode", "regexp"}, pkg)
		is.True(!heavy && !strings.HasPrefix(pkg, "gvisor.dev/gvisor/pkg/sentry")) // comes after the init
	}
}

// BenchmarkEntry is what a process of this binary costs before it is of use:
// as the init, and as itself.
func BenchmarkEntry(b *testing.B) {
	for name, arg0 := range map[string]string{"init": guest.Init, "program": os.Args[0]} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				startAs(arg0)
			}
		})
	}
}
