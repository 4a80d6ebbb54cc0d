//go:build linux

package sandbox

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/volume"
)

func TestPace(t *testing.T) {
	is := is.New(t)
	is.Equal(pace(-1), fastLook)
	is.Equal(pace(0), fastLook)
	is.Equal(pace(growth/8), time.Second/8)
	is.Equal(pace(1<<50), slowLook)
}

// TestTogether: waits that begin at different times end together, and none is
// made longer, or much shorter.
func TestTogether(t *testing.T) {
	is := is.New(t)
	start := time.Unix(1_900_000_000, 123_456_789)
	for _, wait := range []time.Duration{fastLook, 7 * time.Millisecond, 115 * time.Millisecond, slowLook} {
		ends := map[time.Time]bool{}
		for i := range 100 {
			now := start.Add(time.Duration(i) * wait / 100)
			got := together(now, wait)
			is.True(got <= wait && got >= wait/2)
			ends[now.Add(got)] = true
		}
		is.True(len(ends) <= 5) // a hundred are woken a few times
	}
}

// TestStrict on a machine that has no control groups.
func TestStrict(t *testing.T) {
	is := is.New(t)
	volumes, err := volume.Open(t.TempDir())
	is.NoErr(err)
	r := &Runtime{cgroups: &cgroup.Host{}, volumes: volumes}
	is.NoErr(r.checkEnforcement(false))
	err = r.checkEnforcement(true)
	is.True(errors.Is(err, ErrUnavailable))
	is.True(strings.Contains(err.Error(), "memory") && strings.Contains(err.Error(), "cpu"))
	is.True(!strings.Contains(err.Error(), "pids")) // which the guest's kernel keeps
}

// TestFindGroup believes only what can be this sandbox's.
func TestFindGroup(t *testing.T) {
	is := is.New(t)
	id := newID()
	s := &instance{id: id, places: places{run: t.TempDir()}}
	is.NoErr(s.findGroup()) // none
	for content, ok := range map[string]bool{
		`{"places":[{"dir":"/sys/fs/cgroup/memory/sandbox-` + id + `","controllers":["memory"]}]}`: true,
		`{}`: true,
		`{"places":[{"dir":"/sys/fs/cgroup/memory","controllers":["memory"]}]}`: false,
		`{"places":[{"dir":"/sys/fs/cgroup/x/../sandbox-` + id + `"}]}`:         false,
		`{"places":[{"dir":"sandbox-` + id + `"}]}`:                             false,
		`{"places":[{"dir":"/sys/fs/cgroup/memory/sandbox-` + newID() + `"}]}`:  false,
		`[`: false,
	} {
		is.NoErr(os.WriteFile(filepath.Join(s.run, groupFile), []byte(content), 0o600))
		is.Equal(s.findGroup() == nil, ok) // content
	}
}

// TestRowOfAnEarlierTime has no limits: nothing is kept then, nothing is told.
func TestRowOfAnEarlierTime(t *testing.T) {
	is := is.New(t)
	var r row
	is.NoErr(json.Unmarshal([]byte(`{"id":"x","status":"running"}`), &r))
	is.Equal(r.Limits.bounds().Memory, uint64(0))
	is.Equal(r.Limits.bounds().Pids, uint64(0))
}
