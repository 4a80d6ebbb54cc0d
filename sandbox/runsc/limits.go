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
func tellLimits(args []string) []string { return tell(args, runtime.NumCPU()) }

// tell is tellLimits on a machine of so many processors.
func tell(args []string, cpus int) []string {
	boot, r := resources(args)
	if r == nil {
		return args
	}
	if m := r.Memory; m != nil && m.Limit != nil {
		tellMemory(args[boot:], *m.Limit)
	}
	if c := r.CPU; c != nil && c.Quota != nil && c.Period != nil && *c.Period > 0 {
		period := int64(*c.Period)
		if n := max(int((*c.Quota+period-1)/period), minCPUs); n < cpus {
			args = slices.Insert(args, boot+1, "--cpu-num="+strconv.Itoa(n))
		}
	}
	return args
}

func tellMemory(args []string, limit int64) {
	i := slices.Index(args, "--total-memory")
	if i < 0 || i+1 >= len(args) {
		return
	}
	if had, err := strconv.ParseInt(args[i+1], 10, 64); err == nil && limit < had {
		args[i+1] = strconv.FormatInt(limit, 10)
	}
}

// resources returns where in args the command boot is, and what its bundle's
// specification says of resources. Nil is that it cannot be read: after the
// first step the process starts itself once more, as nobody in a root of its
// own, with what was told to it before.
func resources(args []string) (boot int, r *specs.LinuxResources) {
	boot = slices.Index(args, "boot")
	if args[0] != "runsc-sandbox" || boot < 0 {
		return boot, nil
	}
	return boot, readResources(args[boot+1:])
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
