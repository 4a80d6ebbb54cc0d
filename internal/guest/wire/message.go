package wire

import (
	"errors"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/linux"
)

// Op is what a connection is for.
type Op byte

// The operations. Their numbers are part of the protocol.
const (
	OpPing Op = iota + 1
	OpWatch
	OpExec
	OpStat
	OpLstat
	OpReadlink
	OpReadDir
	OpRead
	OpWrite
	OpMkdir
	OpRemove
	OpDial
	OpPorts
	OpShed // end the command that has the most memory
	OpTree // list what is below a directory
)

// Streams says which standard streams of a command the host is connected to.
// The others are /dev/null.
type Streams byte

// The bits of Streams.
const (
	Stdin Streams = 1 << iota
	Stdout
	Stderr
	Merged // standard error goes where standard output goes
)

// A Request begins a connection. Each operation uses some of its fields.
type Request struct {
	Op Op

	// A command. Argv[0] is looked up along the PATH of Env.
	Argv, Env  []string
	Dir        string
	UID, GID   uint32
	Streams    Streams
	Terminal   bool
	Rows, Cols uint16
	WaitDelay  time.Duration // how long output may stay open after the command's own end
	Limits     []Limit

	// A file. Path is absolute.
	Path   string
	Perm   uint32
	Offset int64
	All    bool // make parents too, or remove a whole tree
	Tree   Tree

	Port uint16 // to dial

	// The watch: how the sandbox ends without its Runtime.
	Deadline time.Time     // the lease's end; the zero time is none
	Orphan   time.Duration // how long the sandbox lives on after the watch breaks; 0 = until Deadline
	Bounds   Bounds        // the zero Bounds leave those that there are
}

// A Limit is a resource limit of a command, soft and hard alike.
type Limit struct {
	Resource int
	Value    uint64
}

var errMalformed = errors.New("malformed message")

// The fields of a Request, by tag. A receiver skips tags that it does not
// know.
const (
	tagOp = iota + 1
	tagArg
	tagEnv
	tagDir
	tagUID
	tagGID
	tagStreams
	tagTerminal
	tagRows
	tagCols
	tagWaitDelay
	tagLimit
	tagPath
	tagPerm
	tagOffset
	tagAll
	tagPort
	tagDeadline
	tagOrphan
	tagBounds
	tagTree
)

// Append appends the encoded request to b.
func (r *Request) Append(b []byte) []byte {
	b = append(b, Version)
	b = putUint(b, tagOp, uint64(r.Op))
	b = putStrings(b, tagArg, r.Argv)
	b = putStrings(b, tagEnv, r.Env)
	b = putString(b, tagDir, r.Dir)
	b = putUint(b, tagUID, uint64(r.UID))
	b = putUint(b, tagGID, uint64(r.GID))
	b = putUint(b, tagStreams, uint64(r.Streams))
	b = putBool(b, tagTerminal, r.Terminal)
	b = putUint(b, tagRows, uint64(r.Rows))
	b = putUint(b, tagCols, uint64(r.Cols))
	b = putUint(b, tagWaitDelay, uint64(r.WaitDelay))
	for _, l := range r.Limits {
		v := appendUvarint(nil, uint64(linux.Resource(l.Resource)))
		b = putBytes(b, tagLimit, appendUvarint(v, l.Value))
	}
	b = putString(b, tagPath, r.Path)
	b = putUint(b, tagPerm, uint64(r.Perm))
	b = putUint(b, tagOffset, uint64(r.Offset))
	b = putBool(b, tagAll, r.All)
	b = putUint(b, tagPort, uint64(r.Port))
	if !r.Deadline.IsZero() {
		b = putBytes(b, tagDeadline, appendUvarint(nil, uint64(r.Deadline.UnixNano())))
	}
	b = putUint(b, tagOrphan, uint64(r.Orphan))
	if r.Bounds != (Bounds{}) {
		b = putBytes(b, tagBounds, r.Bounds.append(nil))
	}
	if t := r.Tree.append(nil); len(t) > 0 {
		b = putBytes(b, tagTree, t)
	}
	return b
}

// ErrVersion says that a request is of a newer protocol than its receiver.
var ErrVersion = errors.New("the init of this sandbox is older than the request: end the sandbox and lease a new one")

// Decode sets r to the encoded request b.
func (r *Request) Decode(b []byte) error {
	if len(b) == 0 {
		return errMalformed
	}
	if b[0] > Version {
		return ErrVersion
	}
	*r = Request{}
	return eachField(b[1:], r.set)
}

func (r *Request) set(tag byte, v value) error {
	switch tag {
	case tagOp:
		r.Op = Op(v.uint())
	case tagArg:
		r.Argv = append(r.Argv, v.string())
	case tagEnv:
		r.Env = append(r.Env, v.string())
	case tagDir:
		r.Dir = v.string()
	case tagUID:
		r.UID = uint32(v.uint())
	case tagGID:
		r.GID = uint32(v.uint())
	case tagStreams:
		r.Streams = Streams(v.uint())
	case tagTerminal:
		r.Terminal = v.uint() != 0
	case tagRows:
		r.Rows = uint16(v.uint())
	case tagCols:
		r.Cols = uint16(v.uint())
	case tagWaitDelay:
		r.WaitDelay = time.Duration(v.uint())
	case tagLimit:
		resource, n := uvarint(v)
		if n <= 0 {
			return errMalformed
		}
		r.Limits = append(r.Limits, Limit{Resource: linux.LocalResource(int(resource)), Value: v[n:].uint()})
	case tagPath:
		r.Path = v.string()
	case tagPerm:
		r.Perm = uint32(v.uint())
	case tagOffset:
		r.Offset = int64(v.uint())
	case tagAll:
		r.All = v.uint() != 0
	case tagPort:
		r.Port = uint16(v.uint())
	case tagDeadline:
		r.Deadline = time.Unix(0, int64(v.uint()))
	case tagOrphan:
		r.Orphan = time.Duration(v.uint())
	case tagBounds:
		return r.Bounds.decode(v)
	case tagTree:
		return r.Tree.decode(v)
	}
	return nil
}
