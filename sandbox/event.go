//go:build linux

package sandbox

import "time"

// An EventKind is what happened to a sandbox.
type EventKind string

// The kinds of events. Between running and the next paused, lost or ended, a
// sandbox has an engine; what is metered by time is metered there.
const (
	EventLeased  EventKind = "leased"  // it has an id, and its engine is being started
	EventRunning EventKind = "running" // its engine runs, for the first time
	EventPaused  EventKind = "paused"
	EventResumed EventKind = "resumed" // it has an engine again
	EventLost    EventKind = "lost"    // its engine died
	EventEnded   EventKind = "ended"   // nothing of it is left
)

// A Reason is why something happened to a sandbox that nobody asked for, or
// how it was asked for.
type Reason string

// The reasons of events.
const (
	ReasonEnd           Reason = "end"            // the caller ended it
	ReasonClosed        Reason = "closed"         // its Runtime was closed
	ReasonExpired       Reason = "expired"        // its lease was over
	ReasonMaxLife       Reason = "max-life"       // it was as old as Config.MaxLife
	ReasonIdle          Reason = "idle"           // unused for Config.Idle
	ReasonIdleConnected Reason = "idle-connected" // unused for Config.IdleWatched, with a terminal open
	ReasonLost          Reason = "lost"           // its engine died
	ReasonStartFailed   Reason = "start-failed"   // its engine did not start
	ReasonReboot        Reason = "reboot"         // the machine was started anew
)

// An Event is a fact of a sandbox's life, for metering and logs.
type Event struct {
	ID string `json:"id"`
	// Generation counts the events of the sandbox from 1, without gaps.
	Generation uint64    `json:"generation"`
	Kind       EventKind `json:"kind"`
	Reason     Reason    `json:"reason,omitempty"`
	Time       time.Time `json:"time"`
	// Flush is, of paused, how long the volume's unwritten data took to
	// reach the disk.
	Flush time.Duration `json:"flush,omitempty"`
	Info  Info          `json:"info"` // as it was then
}

// note adds an event to those that wait to be told. The caller holds s.mu.
func (s *instance) note(kind EventKind, reason Reason) *Event {
	if s.runtime.events == nil {
		return &Event{}
	}
	s.row.Generation++
	s.row.Events = append(s.row.Events, Event{
		ID: s.row.ID, Generation: s.row.Generation, Kind: kind, Reason: reason,
		Time: time.Now(), Info: s.row.Info,
	})
	return &s.row.Events[len(s.row.Events)-1]
}

// tell delivers what waits, in order, and reports whether anything did. It is
// in the row on disk first, so that a crash before or during the delivery
// repeats it, under the same generation, and one after it does not. The caller
// holds s.moving.
func (s *instance) tell() bool {
	s.mu.Lock()
	events := s.row.Events
	s.mu.Unlock()
	if len(events) == 0 || s.runtime.events == nil {
		return false // they are for a Runtime that has somebody to tell
	}
	for i := range events {
		s.runtime.events(events[i])
	}
	s.mu.Lock()
	s.row.Events = nil
	s.mu.Unlock()
	return true
}
