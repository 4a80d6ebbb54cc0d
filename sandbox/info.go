package sandbox

import "time"

// An Owner is who a sandbox belongs to. The zero Owner owns nothing in
// particular: it is for programs that serve nobody but themselves.
type Owner struct {
	Org   string `json:"org,omitempty"`
	Actor string `json:"actor,omitempty"` // within Org; "" means the organisation itself
}

// A Spec says what sandbox to lease. Its zero value is a sandbox of class exec
// on image host.
type Spec struct {
	// Class is the kind of sandbox: "exec", which is the default.
	Class string
	// Image names the root file system, for Config.Images to find; "" is the
	// class's in Config.DefaultImages, else "host", the programs of this
	// machine.
	Image string
	// Owner is who leases. Runtime.For sets it.
	Owner Owner
	// Env is added to the environment of every command, as KEY=value.
	Env []string
	// TTL is how long the lease lasts; 0 is the class's own length, 15
	// minutes for exec, and more than 24 hours are cut to that.
	TTL time.Duration
	// Network is what the sandbox can reach: nothing, "none", is the default
	// and, in this version, all there is.
	Network string
}

// A Status is a sandbox's place in its life.
type Status string

// The statuses. An ended sandbox has none: it is gone.
const (
	StatusPending Status = "pending" // it is being made
	StatusRunning Status = "running"
	StatusError   Status = "error" // its engine could not be started, or died
)

// Info describes a sandbox.
type Info struct {
	ID      string    `json:"id"`
	Owner   Owner     `json:"owner"`
	Class   string    `json:"class"`
	Image   string    `json:"image"`
	Digest  string    `json:"digest,omitempty"` // of the image, where it has one
	Status  Status    `json:"status"`
	Workdir string    `json:"workdir"` // where commands start and file names are relative to
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // when the lease ends
}
