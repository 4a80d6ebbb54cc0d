package initd

import (
	"errors"
	"strconv"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// shedTimeout bounds the wait for the end of what is killed for its memory.
// A process that has not even died by then gives nothing back soon.
const shedTimeout = 2 * time.Second

// shed ends the command that has the most memory.
func (s *server) shed(c *conn) error {
	var reply wire.Shed
	if g, memory := s.groups.largest(); g != nil {
		reply = wire.Shed{Killed: true, Memory: memory}
		if err := g.end(); err != nil {
			return err
		}
	}
	return c.send(wire.KindOK, reply.Append(nil))
}

// end kills what is in the group because of its memory. By itself it may be
// ending just now.
func (g *group) end() error {
	g.shed.Store(true)
	err := writeFile(g.path+"/cgroup.kill", "1")
	if err == nil {
		err = g.empty(time.Now().Add(shedTimeout))
	}
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) {
		return nil // it is gone
	}
	return err
}

// largest returns the group that has the most memory, of commands and of what
// they have left behind; nil is that none has any.
func (g *groups) largest() (biggest *group, most uint64) {
	g.mu.Lock()
	all := append([]*group{}, g.pending...)
	for c := range g.live {
		all = append(all, c)
	}
	g.mu.Unlock()
	for _, c := range all {
		if n := c.memory(); n > most && !c.shed.Load() {
			biggest, most = c, n
		}
	}
	return biggest, most
}

// memory is what the group has in bytes; 0 if it is gone.
func (g *group) memory() uint64 {
	fd, err := openFD(g.path+"/memory.current", syscall.O_RDONLY)
	if err != nil {
		return 0
	}
	defer syscall.Close(fd)
	var buf [32]byte
	n, err := syscall.Read(fd, buf[:])
	if err != nil {
		return 0
	}
	line, _, _ := cut(string(buf[:n]), '\n')
	memory, err := strconv.ParseUint(line, 10, 64)
	if err != nil {
		return 0
	}
	return memory
}
