//go:build linux && !cgo

package runsc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// minCPUs is the least number of processors that a guest sees by all means
// but its affinity: where there is one, programs leave locks out that the
// threads of an engine, which has more, would need.
const minCPUs = 2

// tellLimits completes the arguments of the process that is going to be a
// sandbox by the memory and the processors that its specification allows.
// Runsc itself tells them to guests only if it makes the control groups, which
// takes it longer than we can wait.
func tellLimits(args []string) []string {
	boot := slices.Index(args, "boot")
	if args[0] != "runsc-sandbox" || boot < 0 {
		return args
	}
	r := readResources(args[boot+1:])
	if r == nil {
		return args // it has become nobody, in a root of its own, with what was told to it before
	}
	if m := r.Memory; m != nil && m.Limit != nil {
		if i := slices.Index(args, "--total-memory"); i > boot && i+1 < len(args) {
			had, err := strconv.ParseInt(args[i+1], 10, 64)
			if err == nil && *m.Limit < had {
				args[i+1] = strconv.FormatInt(*m.Limit, 10)
			}
		}
	}
	if c := r.CPU; c != nil && c.Quota != nil && c.Period != nil && *c.Period > 0 {
		period := int64(*c.Period)
		n := max(int((*c.Quota+period-1)/period), minCPUs)
		if n < runtime.NumCPU() {
			args = slices.Insert(args, boot+1, "--cpu-num="+strconv.Itoa(n))
		}
	}
	return args
}

// readResources reads the resources in the specification of the bundle that
// args name; nil is that it cannot be read.
func readResources(args []string) *specs.LinuxResources {
	for _, arg := range args {
		dir, ok := strings.CutPrefix(arg, "--bundle=")
		if !ok {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			return nil
		}
		var spec struct {
			Linux struct {
				Resources *specs.LinuxResources `json:"resources"`
			} `json:"linux"`
		}
		if json.Unmarshal(b, &spec) != nil {
			return nil
		}
		return spec.Linux.Resources
	}
	return nil
}
