package sandbox

import "time"

// An Owner is who a sandbox belongs to. The zero Owner owns nothing in
// particular: it is for programs that serve nobody but themselves.
type Owner struct {
	Org   string `json:"org,omitempty"`
	Actor string `json:"actor,omitempty"` // within Org; "" means the organisation itself
}

// covers reports whether o may have what belongs to other: all of its Org if
// it has no Actor.
func (o Owner) covers(other Owner) bool {
	return o.Org == other.Org && (o.Actor == "" || o.Actor == other.Actor)
}

// A Spec says what sandbox to lease. Its zero value is a sandbox of class exec
// on image host.
type Spec struct {
	// ID names a sandbox to come back to. If it runs, it is returned as it
	// is, if it is parked it is resumed, and the rest of the Spec means
	// nothing. One that the Owner does not have, or no longer, means nothing
	// either: a new one is leased, with an ID of its own.
	ID string
	// Class is the kind of sandbox, by default "exec".
	Class string
	// Project names work that goes on over many leases. Its files are on a
	// volume that outlives them and is the Owner.Org's alone. A project has
	// one sandbox at a time: to lease another is an error that is a
	// *ConflictError.
	Project string
	// Disk gives a sandbox without a Project a volume of its own, so that it
	// can be paused. It goes when the lease ends.
	Disk bool
	// Parked leases a sandbox without an engine: it starts when the sandbox is
	// resumed for the first time, by Resume or a lease with its ID. Until then
	// Stage puts files into it. It costs disk alone, and has a Disk. It is not
	// counted against Class.Ceiling, but an organisation may have no more than
	// 16 times as many that wait so. One that is not resumed within
	// Config.MaxLife ends. It has no Project.
	Parked bool
	// Image names the root file system, for Config.Images to find; "" is the
	// class's own, by default "host": the programs of this machine.
	Image string
	// Owner is who leases. Runtime.For sets it.
	Owner Owner
	// Env is added to the environment of every command, as KEY=value.
	Env []string
	// TTL is how long the lease lasts; 0 is the class's own length, and more
	// than Config.MaxLife is cut to that. A sandbox in use when its lease
	// nears the end has it lengthened, as Config.Extend says.
	TTL time.Duration
	// Fixed ends the lease after TTL also when the sandbox is in use.
	Fixed bool
	// CPUs is how much processor time the sandbox may use, in processors; 0 is
	// the class's, by default 2. Programs inside see as many, rounded up.
	CPUs float64
	// Memory is how much memory the sandbox may use, in bytes, all that is in
	// it together: its programs, its files in memory and its kernel. 0 is the
	// class's, by default 4 GiB; the least is MinMemory. A program that goes
	// beyond it ends with CauseMemory; see Runtime.Enforcement.
	Memory int64
	// Network is what the sandbox can reach: nothing, "none", is the default
	// and, in this version, all there is.
	Network string
}

// The classes that every Runtime has, unless Config.Classes has others of
// their names.
const (
	// ClassExec is for code interpreters and other short work: 15 minutes in
	// /mnt/data. It is the default.
	ClassExec = "exec"
	// ClassDev is for developing: 4 hours in /work, which is the project's
	// volume.
	ClassDev = "dev"
	// ClassDesktop is dev with a screen.
	ClassDesktop = "desktop"
)

// A Status is a sandbox's place in its life:
//
//	pending → running | error
//	running → parked (Pause) → running (Resume)
//
// What is asked of a sandbox in another status than it takes is a
// *ConflictError.
type Status string

// The statuses. An ended sandbox has none: it is gone.
const (
	StatusPending Status = "pending" // its engine is being started
	StatusRunning Status = "running"
	StatusParked  Status = "parked" // paused: it has its files, and no engine
	StatusError   Status = "error"  // its engine died
)

// live reports whether a sandbox has an engine, or is about to.
func (s Status) live() bool { return s == StatusPending || s == StatusRunning }

// Info describes a sandbox.
type Info struct {
	ID      string `json:"id"`
	Owner   Owner  `json:"owner"`
	Class   string `json:"class"`
	Project string `json:"project,omitempty"`
	Image   string `json:"image"`
	Digest  string `json:"digest,omitempty"` // of the image, where it has one
	Status  Status `json:"status"`
	// Error says what happened to a sandbox with status error.
	Error   string `json:"error,omitempty"`
	Workdir string `json:"workdir"` // where commands start and file names are relative to
	// Volume is the name of the volume that the working directory is on;
	// without one it lives in the engine, and ends with it.
	Volume string `json:"volume,omitempty"`
	Limits Limits `json:"limits"`

	Created   time.Time `json:"created"`            // when this lease was taken, or the sandbox last resumed
	Used      time.Time `json:"used"`               // when a command or file was last used
	Connected time.Time `json:"connected,omitzero"` // when a terminal was last seen open
	Expires   time.Time `json:"expires,omitzero"`   // when the lease ends; that of a parked sandbox does not
}

// Limits are what a sandbox is held to. What of it the machine enforces, and
// how, tells Runtime.Enforcement.
type Limits struct {
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"` // bytes
	Pids   int     `json:"pids"`   // processes and threads of each command
}

// MinMemory is the least memory that a sandbox can have: the engine takes some
// 30 MiB of it.
const MinMemory = 128 << 20
