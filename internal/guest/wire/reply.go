package wire

import (
	"io/fs"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/linux"
)

// A Stat describes a file as lstat or stat saw it.
type Stat struct {
	Name    string
	Size    int64
	Mode    uint32 // as st_mode, of Linux
	ModTime time.Time
	// Changed is when the file or anything about it last changed, which
	// unlike ModTime cannot be set; zero if the sender does not tell.
	Changed time.Time
}

const (
	tagName = iota + 1
	tagSize
	tagMode
	tagModTime
	tagErrno
	tagPhase
	tagText
	tagCode
	tagSignal
	tagCause
	tagModNano
	tagShed
	tagChanged
	tagChangedNano
	tagTouched
	tagOmitted
)

// Append appends the encoded stat to b.
func (s *Stat) Append(b []byte) []byte {
	b = putString(b, tagName, s.Name)
	b = putUint(b, tagSize, uint64(s.Size))
	b = putUint(b, tagMode, uint64(s.Mode))
	b = putBytes(b, tagModTime, appendUvarint(nil, uint64(s.ModTime.Unix())))
	b = putUint(b, tagModNano, uint64(s.ModTime.Nanosecond()))
	if s.Changed.IsZero() {
		return b
	}
	b = putBytes(b, tagChanged, appendUvarint(nil, uint64(s.Changed.Unix())))
	return putUint(b, tagChangedNano, uint64(s.Changed.Nanosecond()))
}

// Decode sets s to the encoded stat b.
func (s *Stat) Decode(b []byte) error {
	*s = Stat{}
	var sec, nano, changed, changedNano int64
	told := false
	defer func() {
		s.ModTime = time.Unix(sec, nano)
		if told {
			s.Changed = time.Unix(changed, changedNano)
		}
	}()
	return eachField(b, func(tag byte, v value) error {
		switch tag {
		case tagName:
			s.Name = v.string()
		case tagSize:
			s.Size = max(int64(v.uint()), 0)
		case tagMode:
			s.Mode = uint32(v.uint())
		case tagModTime:
			sec = int64(v.uint())
		case tagModNano:
			nano = int64(min(v.uint(), 1e9-1))
		case tagChanged:
			changed, told = int64(v.uint()), true
		case tagChangedNano:
			changedNano = int64(min(v.uint(), 1e9-1))
		}
		return nil
	})
}

// The bits of st_mode, which are others on other systems.
const (
	typeBits   = 0o170000
	typeFIFO   = 0o010000
	typeChar   = 0o020000
	typeDir    = 0o040000
	typeBlock  = 0o060000
	typeLink   = 0o120000
	typeSocket = 0o140000
	setUID     = 0o4000
	setGID     = 0o2000
	sticky     = 0o1000
)

// FileMode translates Mode.
func (s *Stat) FileMode() fs.FileMode {
	mode := fs.FileMode(s.Mode & 0o777)
	switch s.Mode & typeBits {
	case typeDir:
		mode |= fs.ModeDir
	case typeLink:
		mode |= fs.ModeSymlink
	case typeFIFO:
		mode |= fs.ModeNamedPipe
	case typeSocket:
		mode |= fs.ModeSocket
	case typeChar:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case typeBlock:
		mode |= fs.ModeDevice
	}
	if s.Mode&setUID != 0 {
		mode |= fs.ModeSetuid
	}
	if s.Mode&setGID != 0 {
		mode |= fs.ModeSetgid
	}
	if s.Mode&sticky != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// AppendEntry appends one entry of a listing, which is a row of them.
func AppendEntry(b []byte, s *Stat) []byte {
	return putBytes(b, tagName, s.Append(nil))
}

// EachEntry calls f with every entry of the part b of a listing.
func EachEntry(b []byte, f func(Stat) error) error {
	return eachField(b, func(tag byte, v value) error {
		if tag != tagName {
			return nil
		}
		var s Stat
		if err := s.Decode(v); err != nil {
			return err
		}
		return f(s)
	})
}

// Phase says which part of an operation failed.
type Phase byte

// The phases of an operation.
const (
	PhaseCall  Phase = iota // the operation itself
	PhaseStart              // the command could not be started: a fault of what was asked for
)

// An Error is how an operation failed inside.
type Error struct {
	Phase Phase
	Errno syscall.Errno // 0 if no system call failed
	Path  string        // what it failed on
	Text  string        // what the init has to say beyond that
}

func (e *Error) Error() string {
	s := e.Text
	if s == "" || e.Errno != 0 {
		s = e.Errno.Error()
	}
	if e.Text != "" && e.Errno != 0 {
		s = e.Text + ": " + s
	}
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	return s
}

// Append appends the encoded error to b.
func (e *Error) Append(b []byte) []byte {
	b = putUint(b, tagPhase, uint64(e.Phase))
	b = putUint(b, tagErrno, uint64(linux.Errno(e.Errno)))
	b = putString(b, tagName, e.Path)
	return putString(b, tagText, e.Text)
}

// Decode sets e to the encoded error b.
func (e *Error) Decode(b []byte) error {
	*e = Error{}
	errno := 0
	defer func() {
		e.Errno = linux.LocalErrno(errno)
		if errno != 0 && e.Errno == 0 && e.Text == "" { // this system has none like it
			e.Text = linux.ErrnoName(errno)
		}
	}()
	return eachField(b, func(tag byte, v value) error {
		switch tag {
		case tagPhase:
			e.Phase = Phase(v.uint())
		case tagErrno:
			errno = int(v.uint() & 0xfff)
		case tagName:
			e.Path = v.string()
		case tagText:
			e.Text = v.string()
		}
		return nil
	})
}

// An Exit is how a command ended.
type Exit struct {
	Code   int
	Signal syscall.Signal // 0 if it exited
	Killed bool           // the host asked for its end
	Shed   bool           // it had the most memory when there was too little
}

// Append appends the encoded exit to b.
func (e *Exit) Append(b []byte) []byte {
	b = putUint(b, tagCode, uint64(e.Code))
	b = putUint(b, tagSignal, uint64(linux.Signal(e.Signal)))
	b = putBool(b, tagCause, e.Killed)
	return putBool(b, tagShed, e.Shed)
}

// Decode sets e to the encoded exit b.
func (e *Exit) Decode(b []byte) error {
	*e = Exit{}
	return eachField(b, func(tag byte, v value) error {
		switch tag {
		case tagCode:
			e.Code = int(v.uint() & 0xff)
		case tagSignal:
			e.Signal = linux.LocalSignal(int(v.uint() & 0x7f))
		case tagCause:
			e.Killed = v.uint() != 0
		case tagShed:
			e.Shed = v.uint() != 0
		}
		return nil
	})
}

// Credit is the payload of a KindCredit frame.
func Credit(stream Kind, n int) []byte {
	return appendUvarint([]byte{byte(stream)}, uint64(n))
}

// ParseCredit reads the payload of a KindCredit frame.
func ParseCredit(b []byte) (stream Kind, n int, err error) {
	if len(b) < 2 {
		return 0, 0, errMalformed
	}
	v, used := uvarint(b[1:])
	if used != len(b)-1 || v > Window {
		return 0, 0, errMalformed
	}
	return Kind(b[0]), int(v), nil
}

// Ports is the payload of the reply to OpPorts.
func Ports(list []uint16) []byte {
	b := make([]byte, 0, 2*len(list))
	for _, p := range list {
		b = appendLE16(b, p)
	}
	return b
}

// ParsePorts reads the payload of the reply to OpPorts.
func ParsePorts(b []byte) ([]uint16, error) {
	if len(b)%2 != 0 {
		return nil, errMalformed
	}
	list := make([]uint16, 0, len(b)/2)
	for ; len(b) > 0; b = b[2:] {
		list = append(list, le16(b))
	}
	return list, nil
}

// Size is the payload of a KindResize frame.
func Size(rows, cols uint16) []byte {
	return appendLE16(appendLE16(nil, rows), cols)
}

// ParseSize reads the payload of a KindResize frame.
func ParseSize(b []byte) (rows, cols uint16, err error) {
	if len(b) != 4 {
		return 0, 0, errMalformed
	}
	return le16(b), le16(b[2:]), nil
}
