//go:build linux && !cgo

package runsc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// bundle is a folder with a specification.
func bundle(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const (
	memoryLimit = `{"linux":{"resources":{"memory":{"limit":1073741824}}}}`
	oneCPU      = `{"linux":{"resources":{"cpu":{"quota":50000,"period":100000}}}}`
)

func TestTellLimits(t *testing.T) {
	for name, c := range map[string]struct{ config, args, want string }{
		"memory":             {memoryLimit, "runsc-sandbox --root=/r boot --bundle=B --total-memory 8589934592 id", "runsc-sandbox --root=/r boot --bundle=B --total-memory 1073741824 id"},
		"more than there is": {memoryLimit, "runsc-sandbox boot --bundle=B --total-memory 1000 id", "runsc-sandbox boot --bundle=B --total-memory 1000 id"},
		"no value":           {memoryLimit, "runsc-sandbox boot --bundle=B --total-memory", "runsc-sandbox boot --bundle=B --total-memory"},
		"no limits":          {`{"linux":{}}`, "runsc-sandbox boot --bundle=B --total-memory 5 id", "runsc-sandbox boot --bundle=B --total-memory 5 id"},
		"not a spec":         {`{`, "runsc-sandbox boot --bundle=B --total-memory 5 id", "runsc-sandbox boot --bundle=B --total-memory 5 id"},
		"the gofer":          {memoryLimit, "runsc-gofer gofer --bundle=B", "runsc-gofer gofer --bundle=B"},
		"another command":    {memoryLimit, "sandbox-runsc run --bundle=B boot", "sandbox-runsc run --bundle=B boot"},
		"in its own root":    {memoryLimit, "runsc-sandbox boot --bundle=/nonexistent --total-memory 8589934592 id", "runsc-sandbox boot --bundle=/nonexistent --total-memory 8589934592 id"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			dir := bundle(t, c.config)
			args := strings.Fields(strings.ReplaceAll(c.args, "=B", "="+dir))
			is.Equal(strings.ReplaceAll(strings.Join(tellLimits(args), " "), "="+dir, "=B"), c.want)
		})
	}
}

// TestTellProcessors: never fewer than two, nor more than there are.
func TestTellProcessors(t *testing.T) {
	is := is.New(t)
	dir := bundle(t, oneCPU)
	args := func() []string { return []string{"runsc-sandbox", "boot", "--bundle=" + dir, "id"} }
	is.Equal(tell(args(), 64)[2], "--cpu-num=2")
	is.True(slices.Equal(tell(args(), 2), args()))
	is.True(slices.Equal(tell(args(), 1), args()))
}
