package initd

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// cgroupRoot is where the sandbox's own cgroup hierarchy is mounted.
const cgroupRoot = "/sys/fs/cgroup"

// groups makes a cgroup for each command. What a command starts stays in its
// cgroup however it detaches itself, so that one write ends all of it. Only
// root can write there.
type groups struct {
	root string // the group of all commands

	mu      sync.Mutex
	next    int
	bounds  wire.Bounds
	live    map[*group]struct{} // of commands
	pending []*group            // of ended commands, until what they left behind ends
}

// controllers are what groups have. That of memory counts; that of cpu only
// holds what is to be read there.
const controllers = "+cpu +memory +pids"

// newGroups moves the init out of the way: a cgroup that gives controllers to
// its children holds no process itself. Commands are together in one, beside
// that of the init, which their number must not hinder.
func newGroups(root string) (*groups, error) {
	commands := root + "/commands"
	for _, dir := range []string{root + "/init", commands} {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if err := writeFile(root+"/init/cgroup.procs", "1"); err != nil {
		return nil, err
	}
	for _, dir := range []string{root, commands} {
		if err := writeFile(dir+"/cgroup.subtree_control", controllers); err != nil {
			return nil, err
		}
	}
	g := &groups{root: commands, live: map[*group]struct{}{}}
	return g, g.bound(wire.Bounds{Pids: defaultPids})
}

// A group is the cgroup of one command.
type group struct {
	path string
	dir  int
	shed atomic.Bool // ended because there was too little memory
}

func (g *groups) create() (*group, error) {
	g.mu.Lock()
	g.next++
	c, bounds := &group{path: g.root + "/cmd" + strconv.Itoa(g.next), dir: -1}, g.bounds
	g.mu.Unlock()
	if err := os.Mkdir(c.path, 0o755); err != nil {
		return nil, err
	}
	dir, err := openFD(c.path, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err == nil {
		err = setBounds(c.path, bounds.Memory, bounds.Quota, bounds.Pids)
	}
	if err != nil {
		closeFDs(&dir)
		syscall.Rmdir(c.path)
		return nil, err
	}
	c.dir = dir
	g.mu.Lock()
	g.live[c] = struct{}{}
	g.mu.Unlock()
	return c, nil
}

// kill ends every process in the group, and those that they are just starting.
func (g *group) kill() {
	if err := writeFile(g.path+"/cgroup.kill", "1"); err != nil {
		fatal("kill", err)
	}
}

// waitEmpty returns when the group holds no process.
func (g *group) waitEmpty() {
	if err := g.empty(time.Time{}); err != nil {
		fatal("cgroup.events", err)
	}
}

// empty waits until the group holds no process, or until end, if that is not
// zero. The kernel says so by POLLPRI on cgroup.events.
func (g *group) empty(end time.Time) error {
	fd, err := openFD(g.path+"/cgroup.events", syscall.O_RDONLY)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	for {
		var buf [128]byte
		n, err := syscall.Pread(fd, buf[:], 0)
		if err != nil {
			return err
		}
		if !populated(string(buf[:n])) {
			return nil
		}
		if !end.IsZero() && time.Now().After(end) {
			return syscall.ETIMEDOUT
		}
		// The notice may have come before the poll: look again soon.
		sys.Poll([]sys.PollFd{{Fd: int32(fd), Events: sys.POLLPRI}}, noticeInterval)
	}
}

// noticeInterval is in milliseconds.
const noticeInterval = 5

func populated(events string) bool {
	const key = "populated "
	for i := 0; i+len(key) < len(events); i++ {
		if events[i:i+len(key)] == key {
			return events[i+len(key)] != '0'
		}
	}
	return false
}

// release removes the group, now or when the last process in it has ended.
func (g *groups) release(c *group) {
	syscall.Close(c.dir)
	gone := syscall.Rmdir(c.path) == nil
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.live, c)
	if !gone {
		g.pending = append(g.pending, c)
	}
}

// busy reports whether an ended command has left something behind.
func (g *groups) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pending) > 0
}

// sweep removes the groups that have become empty.
func (g *groups) sweep() {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := g.pending[:0]
	for _, c := range g.pending {
		if err := syscall.Rmdir(c.path); err != nil && err != syscall.ENOENT {
			kept = append(kept, c)
		}
	}
	g.pending = kept
}

// writeFile writes a control file in one call.
func writeFile(path, s string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	if _, err := syscall.Write(fd, []byte(s)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}
