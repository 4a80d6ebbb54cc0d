package wire

// Bounds are what a sandbox is held to, for the init to keep and to tell to
// programs. Zero is no bound.
type Bounds struct {
	Memory  uint64 // bytes, of the whole sandbox; told only
	Quota   uint64 // processor time, in microseconds of each QuotaPeriod; told only
	Pids    uint64 // processes and threads of a command
	AllPids uint64 // those of all commands together
}

// QuotaPeriod is what Quota is a part of, in microseconds.
const QuotaPeriod = 100_000

const (
	tagMemory = iota + 1
	tagQuota
	tagPids
	tagAllPids
)

func (q *Bounds) append(b []byte) []byte {
	b = putUint(b, tagMemory, q.Memory)
	b = putUint(b, tagQuota, q.Quota)
	b = putUint(b, tagPids, q.Pids)
	return putUint(b, tagAllPids, q.AllPids)
}

func (q *Bounds) decode(b []byte) error {
	*q = Bounds{}
	return eachField(b, func(tag byte, v value) error {
		switch tag {
		case tagMemory:
			q.Memory = v.uint()
		case tagQuota:
			q.Quota = v.uint()
		case tagPids:
			q.Pids = v.uint()
		case tagAllPids:
			q.AllPids = v.uint()
		}
		return nil
	})
}

// Shed is the reply to OpShed.
type Shed struct {
	Killed bool   // false: there is no command that has any memory
	Memory uint64 // what it had, in bytes
}

// Append appends the encoded reply to b.
func (s *Shed) Append(b []byte) []byte {
	b = putBool(b, tagCause, s.Killed)
	return putUint(b, tagSize, s.Memory)
}

// Decode sets s to the encoded reply b.
func (s *Shed) Decode(b []byte) error {
	*s = Shed{}
	return eachField(b, func(tag byte, v value) error {
		switch tag {
		case tagCause:
			s.Killed = v.uint() != 0
		case tagSize:
			s.Memory = v.uint()
		}
		return nil
	})
}
