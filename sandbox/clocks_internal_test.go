//go:build linux

package sandbox

import (
	"testing"
	"time"

	"github.com/matryer/is"
)

var testClocks = clocks{
	maxLife: 24 * time.Hour, idle: 15 * time.Minute, idleWatched: time.Hour,
	extend: time.Hour, extendBefore: 10 * time.Minute,
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is a running sandbox as it is leased, changed by f.
func at(f func(*standing)) *standing {
	s := &standing{
		status: StatusRunning, created: began, used: began, ttl: 4 * time.Hour,
		expires: began.Add(4 * time.Hour),
	}
	f(s)
	return s
}

func TestVerdict(t *testing.T) {
	const tick = time.Nanosecond
	minute, hour := time.Minute, time.Hour
	for _, c := range []struct {
		name   string
		change func(*standing)
		after  time.Duration
		want   Reason
	}{
		{"unused", func(*standing) {}, 15*minute - tick, ""},
		{"unused for too long", func(*standing) {}, 15 * minute, ReasonIdle},
		{"used since", func(s *standing) { s.used = began.Add(minute) }, 16*minute - tick, ""},
		{"not used since", func(s *standing) { s.used = began.Add(minute) }, 16 * minute, ReasonIdle},
		{"a command runs", func(s *standing) { s.uses = 1 }, 4*hour - tick, ""},
		{"a command runs when the lease ends", func(s *standing) { s.uses = 1 }, 4 * hour, ReasonExpired},
		{"a terminal is open", func(s *standing) { s.watchers = 1 }, hour - tick, ""},
		{"a terminal is open and nobody types", func(s *standing) { s.watchers = 1 }, hour, ReasonIdleConnected},
		{"a terminal was open a moment ago", func(s *standing) { s.connected = began.Add(hour - minute) }, hour, ReasonIdleConnected},
		{"a terminal was closed after long", func(s *standing) { s.connected = began.Add(50 * minute) }, 65*minute - tick, ""},
		{"a terminal was closed long ago", func(s *standing) { s.connected = began.Add(50 * minute) }, 65 * minute, ReasonIdle},
		{"the lease is over before it is idle", func(s *standing) { s.expires = began.Add(minute) }, minute, ReasonExpired},
		{"too old, in use, and lengthened", func(s *standing) { s.uses = 1; s.expires = began.Add(48 * hour) }, 24 * hour, ReasonMaxLife},
		{"too old and over: the age wins", func(*standing) {}, 24 * hour, ReasonMaxLife},
		{"lost", func(s *standing) { s.status = StatusError }, 0, ReasonLost},
		{"lost and too old: the loss wins", func(s *standing) { s.status = StatusError }, 24 * hour, ReasonLost},
		{"parked", func(s *standing) { s.status = StatusParked }, 1000 * hour, ""},
		{"pending", func(s *standing) { s.status = StatusPending }, hour, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			is.New(t).Equal(testClocks.verdict(at(c.change), began.Add(c.after)), c.want)
		})
	}
}

func TestVerdictWithoutIdleClocks(t *testing.T) {
	is := is.New(t)
	c := testClocks
	c.idle, c.idleWatched = -1, -1
	is.Equal(c.verdict(at(func(*standing) {}), began.Add(3*time.Hour)), Reason(""))
	is.Equal(c.verdict(at(func(s *standing) { s.watchers = 1 }), began.Add(3*time.Hour)), Reason(""))
}

func TestExtension(t *testing.T) {
	const tick = time.Nanosecond
	minute, hour := time.Minute, time.Hour
	for _, c := range []struct {
		name   string
		change func(*standing)
		after  time.Duration
		want   time.Duration // the end, after the beginning; 0 leaves it
	}{
		{"early", func(*standing) {}, 4*hour - 10*minute - tick, 0},
		{"near the end", func(*standing) {}, 4*hour - 10*minute, 5*hour - 10*minute},
		{"a short lease in its first half", func(s *standing) { s.ttl = minute; s.expires = began.Add(minute) }, 30*time.Second - tick, 0},
		{"a short lease in its second half", func(s *standing) { s.ttl = minute; s.expires = began.Add(minute) }, 30 * time.Second, hour + 30*time.Second},
		{"fixed", func(s *standing) { s.fixed = true }, 4*hour - tick, 0},
		{"at the longest life", func(s *standing) { s.expires = began.Add(24 * hour) }, 24*hour - minute, 0},
		{"near the longest life", func(s *standing) { s.expires = began.Add(23*hour + 30*minute) }, 23*hour + 25*minute, 24 * hour},
		{"parked", func(s *standing) { s.status = StatusParked }, 4*hour - tick, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			is := is.New(t)
			s := at(c.change)
			end, due := testClocks.extension(s, began.Add(c.after))
			is.Equal(due, c.want > 0)
			is.True(!due || end.Equal(began.Add(c.want)))
			is.True(!due || end.After(s.expires)) // use never shortens a lease
		})
	}
}
