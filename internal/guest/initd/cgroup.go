package initd

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/sys"
)

// cgroupRoot is where the sandbox's own cgroup hierarchy is mounted.
const cgroupRoot = "/sys/fs/cgroup"

// groups makes a cgroup for each command. What a command starts stays in its
// cgroup however it detaches itself, so that one write ends all of it. Only
// root can write there.
type groups struct {
	root string

	mu      sync.Mutex
	next    int
	pending []*group // of ended commands, until what they left behind ends
}

// newGroups moves the init out of the way: a cgroup that gives controllers to
// its children holds no process itself.
func newGroups(root string) (*groups, error) {
	if err := os.Mkdir(root+"/init", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := writeFile(root+"/init/cgroup.procs", "1"); err != nil {
		return nil, err
	}
	if err := writeFile(root+"/cgroup.subtree_control", "+pids +memory"); err != nil {
		return nil, err
	}
	return &groups{root: root}, nil
}

// A group is the cgroup of one command.
type group struct {
	path string
	dir  int
}

func (g *groups) create() (*group, error) {
	g.mu.Lock()
	g.next++
	path := g.root + "/cmd" + strconv.Itoa(g.next)
	g.mu.Unlock()
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	dir, err := openFD(path, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err == nil {
		err = writeFile(path+"/pids.max", maxPids)
	}
	if err != nil {
		closeFDs(&dir)
		syscall.Rmdir(path)
		return nil, err
	}
	return &group{path: path, dir: dir}, nil
}

// maxPids is how many processes and threads a command may have at a time. Each
// is a thread on the host too, which a fork bomb would run out of.
const maxPids = "512"

// kill ends every process in the group, and those that they are just starting.
func (g *group) kill() {
	if err := writeFile(g.path+"/cgroup.kill", "1"); err != nil {
		fatal("kill", err)
	}
}

// waitEmpty returns when the group holds no process. The kernel says so by
// POLLPRI on cgroup.events.
func (g *group) waitEmpty() {
	fd, err := openFD(g.path+"/cgroup.events", syscall.O_RDONLY)
	if err != nil {
		fatal("cgroup.events", err)
	}
	defer syscall.Close(fd)
	for {
		var buf [128]byte
		n, err := syscall.Pread(fd, buf[:], 0)
		if err != nil {
			fatal("cgroup.events", err)
		}
		if !populated(string(buf[:n])) {
			return
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
	if syscall.Rmdir(c.path) == nil {
		return
	}
	g.mu.Lock()
	g.pending = append(g.pending, c)
	g.mu.Unlock()
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
