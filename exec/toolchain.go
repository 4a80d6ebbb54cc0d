package exec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// A Toolchain says whether a language can run.
type Toolchain struct {
	Language string
	Missing  []string // programs that the image does not have; none if it can
}

// probeLife is how long a sandbox lives that was leased to look at its image.
const probeLife = time.Minute

// Languages tells of each language, in their order, whether the image of a
// session has what it needs. Without a session it looks into a fresh sandbox,
// which ends by itself.
func (it *Interpreter) Languages(ctx context.Context, session string) ([]Toolchain, error) {
	s, err := it.probed(ctx, session)
	if err != nil {
		return nil, err
	}
	var programs []string
	for _, name := range it.names {
		programs = append(programs, it.languages[name].Needs...)
	}
	missing, err := lacks(ctx, s, programs)
	if err != nil {
		return nil, err
	}
	list := make([]Toolchain, len(it.names))
	for i, name := range it.names {
		list[i].Language = name
		for _, p := range it.languages[name].Needs {
			if slices.Contains(missing, p) {
				list[i].Missing = append(list[i].Missing, p)
			}
		}
	}
	return list, nil
}

func (it *Interpreter) probed(ctx context.Context, session string) (*session, error) {
	if session != "" {
		return it.existing(ctx, session)
	}
	probe := *it
	probe.cfg.Spec.TTL, probe.cfg.Spec.Fixed, probe.cfg.Spec.Disk = probeLife, true, false
	return probe.open(ctx, "", "")
}

// lacks returns those programs that are not to be found along PATH. One shell
// can tell of all; where there is none, each is started.
func lacks(ctx context.Context, s *session, programs []string) ([]string, error) {
	slices.Sort(programs)
	programs = slices.Compact(programs)
	const look = `for p do command -v "$p" >/dev/null || echo "$p"; done; echo end`
	out, err := s.Command("sh", append([]string{"-c", look, "sh"}, programs...)...).Output(ctx)
	if list := strings.Split(string(out), "\n"); err == nil && len(list) >= 2 && list[len(list)-2] == "end" {
		return list[:len(list)-2], nil
	}
	if isSession(err) {
		return nil, err
	}
	var missing []string
	for _, p := range programs {
		cmd := s.Command(p, "--version")
		cmd.Timeout = probeTimeout
		err := cmd.Run(ctx)
		if isSession(err) {
			return nil, err
		}
		if _, ok := errors.AsType[*sandbox.StartError](err); ok {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// probeTimeout ends a program that does not know how to say its version.
const probeTimeout = 10 * time.Second
