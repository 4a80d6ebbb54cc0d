package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNone says that the controller in question cannot be used here.
var ErrNone = errors.New("cgroup: no such controller here")

// CPU returns how much processor time the group has used.
func (g *Group) CPU() (time.Duration, error) {
	for _, p := range g.Places {
		switch {
		case p.Unified && p.has(CPU):
			usec, err := readValue(p.path("cpu.stat"), "usage_usec")
			return time.Duration(usec) * time.Microsecond, err
		case !p.Unified && p.has(cpuacct):
			nsec, err := readValue(p.path("cpuacct.usage"), "")
			return time.Duration(nsec), err
		}
	}
	return 0, ErrNone
}

// Tasks returns how many threads the group has.
func (g *Group) Tasks() (int, error) {
	p := g.place(Pids)
	if p == nil {
		return 0, ErrNone
	}
	n, err := readValue(p.path("pids.current"), "")
	return int(n), err
}

// OOMKills returns how many processes of the group the kernel has killed
// because the group had reached its limit.
func (g *Group) OOMKills() (int64, error) {
	p := g.place(Memory)
	if p == nil {
		return 0, ErrNone
	}
	return readValue(p.path(p.oomFile()), "oom_kill")
}

func (p *Place) oomFile() string {
	if p.Unified {
		return "memory.events"
	}
	return "memory.oom_control"
}

func readValue(path, key string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, ok := value(b, key)
	if !ok {
		return 0, fmt.Errorf("cgroup: %s has no %q", path, key)
	}
	return n, nil
}

// value finds a figure in a file of lines that are a key and a figure each, or
// in one that is a single figure, whose key is "".
func value(b []byte, key string) (int64, bool) {
	for line := range bytes.Lines(b) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if key != "" {
			rest, ok := bytes.CutPrefix(line, []byte(key+" "))
			if !ok {
				continue
			}
			line = rest
		}
		n, err := strconv.ParseInt(string(line), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// A Meter reads a group's memory again and again at little cost. It is not
// safe for concurrent use.
type Meter struct {
	keys        []string
	total, stat int // descriptors
	kills       int
	buf         [8 << 10]byte
}

// Meter returns a meter of the group, for its user to close.
func (g *Group) Meter() (*Meter, error) {
	p := g.place(Memory)
	if p == nil {
		return nil, ErrNone
	}
	total, keys := "memory.usage_in_bytes", []string{"rss", "shmem", "swap"}
	if p.Unified {
		total, keys = "memory.current", []string{"anon", "shmem"}
	}
	m := &Meter{keys: keys, total: -1, stat: -1, kills: -1}
	for name, fd := range map[string]*int{total: &m.total, "memory.stat": &m.stat, p.oomFile(): &m.kills} {
		var err error
		if *fd, err = unix.Open(p.path(name), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			m.Close()
			return nil, &os.PathError{Op: "open", Path: p.path(name), Err: err}
		}
	}
	return m, nil
}

// Total returns all memory that the group is charged for. Page cache is most
// of it when files are written, so it is no reason to kill anything; but what
// is in use is never more, and it costs less to ask for.
func (m *Meter) Total() (int64, error) {
	b, err := m.read(m.total)
	if err != nil {
		return 0, err
	}
	n, ok := value(b, "")
	if !ok {
		return 0, errFigure
	}
	return n, nil
}

// Used returns the memory that is in use and cannot be taken back: that of
// processes, and of files that are nowhere else.
func (m *Meter) Used() (used int64, err error) {
	b, err := m.read(m.stat)
	if err != nil {
		return 0, err
	}
	for _, key := range m.keys {
		n, ok := value(b, key)
		if !ok && key != "swap" { // which kernels without swap do not tell
			return 0, errFigure
		}
		used += n
	}
	return used, nil
}

// Kills is as Group.OOMKills.
func (m *Meter) Kills() (int64, error) {
	b, err := m.read(m.kills)
	if err != nil {
		return 0, err
	}
	n, _ := value(b, "oom_kill") // kernels before 4.13 do not tell
	return n, nil
}

var errFigure = errors.New("cgroup: not the figures of a memory controller")

func (m *Meter) read(fd int) ([]byte, error) {
	n, err := unix.Pread(fd, m.buf[:], 0)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	return m.buf[:n], nil
}

// Close closes the meter.
func (m *Meter) Close() {
	for _, fd := range []int{m.total, m.stat, m.kills} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
