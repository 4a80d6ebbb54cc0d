package initd

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/hanzoai/sandbox/internal/guest/sys"
	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// A tracker knows what has changed below a directory since it began. It asks
// the kernel instead of comparing: a call inside the engine costs some 20 µs,
// so that to describe a thousand files twice would take longer than many a
// program; and who writes through a mapping leaves no other trace, since the
// engine's own file systems do not move the file's times then.
//
// A nil tracker takes everything for changed.
type tracker struct {
	fd      int
	watched map[string]bool // folders by path
	paths   map[int32]string
	seen    map[string]bool // what has changed
	lost    bool            // there was too much to know of
	buf     []byte
}

// What of a folder is told: a name in it that is new, or whose content may be
// another. A file that was mapped tells when it is closed.
const tracked = syscall.IN_CREATE | syscall.IN_MOVED_TO | syscall.IN_MODIFY | syscall.IN_CLOSE_WRITE |
	syscall.IN_ONLYDIR | syscall.IN_DONT_FOLLOW

const (
	maxTouched = 1 << 16               // names that are kept
	drainPause = 50 * time.Millisecond // how long events wait at most, in the engine's memory
	maxDrain   = 16 << 20              // bytes of events that are read at a time
)

func newTracker(root string, spec *wire.Tree) (*tracker, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	t := &tracker{
		fd: fd, watched: map[string]bool{}, paths: map[int32]string{}, seen: map[string]bool{},
		buf: make([]byte, 64<<10),
	}
	w := newWalk(root, spec)
	w.enter = func(dir string) bool { return t.watch(root, dir) }
	if err := w.run(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *tracker) Close() error { return syscall.Close(t.fd) }

// watch watches a folder, and reports whether others may be in it.
func (t *tracker) watch(root, dir string) bool {
	path := below(root, dir)
	if dir == "" {
		path = root + "/." // which may be a link
	}
	wd, err := syscall.InotifyAddWatch(t.fd, path, tracked)
	if err != nil {
		return dir == "" // it is fresh then, or the walk says what is wrong
	}
	t.watched[dir] = true
	t.paths[int32(wd)] = dir
	var st syscall.Stat_t
	// Both kinds of file systems that a working directory is on count so.
	return syscall.Lstat(path, &st) != nil || st.Nlink != 2
}

// wait keeps track until the host asks for the listing. It is false if the
// host goes away instead.
//
// It does not wait for events, as that would wake a thread for each write of a
// program, but looks from time to time.
func (t *tracker) wait(c *conn) (asked bool) {
	for {
		p := []sys.PollFd{{Fd: int32(c.fd), Events: sys.POLLIN}}
		n, err := sys.Poll(p, int(drainPause/time.Millisecond))
		if err != nil && err != syscall.EINTR {
			return false
		}
		if n > 0 {
			break
		}
		t.drain()
	}
	kind, _, err := c.in.Next()
	if err != nil || kind != wire.KindRequest {
		return false
	}
	t.drain()
	return true
}

// drain takes the events that there are.
func (t *tracker) drain() {
	for total := 0; ; {
		n, err := syscall.Read(t.fd, t.buf)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		t.events(t.buf[:n])
		if total += n; total > maxDrain {
			t.lost = true // who writes faster than is read has written to anything
			return
		}
	}
}

func (t *tracker) events(b []byte) {
	for len(b) >= syscall.SizeofInotifyEvent {
		ev := (*syscall.InotifyEvent)(unsafe.Pointer(&b[0]))
		end := syscall.SizeofInotifyEvent + int(ev.Len)
		if end > len(b) {
			return
		}
		name := b[syscall.SizeofInotifyEvent:end]
		for len(name) > 0 && name[len(name)-1] == 0 {
			name = name[:len(name)-1]
		}
		t.event(ev, string(name))
		b = b[end:]
	}
}

func (t *tracker) event(ev *syscall.InotifyEvent, name string) {
	dir, known := t.paths[ev.Wd]
	switch {
	case ev.Mask&syscall.IN_Q_OVERFLOW != 0 || len(t.seen) == maxTouched:
		t.lost = true
	case known && name != "":
		t.seen[below(dir, name)] = true
	}
}

// touched reports whether what is at a path may have changed.
func (t *tracker) touched(path string) bool { return t == nil || t.lost || t.seen[path] }

// fresh reports whether all that is in a folder may have changed: it was not
// there before, or is at another place.
func (t *tracker) fresh(dir string) bool {
	if t == nil || t.lost || !t.watched[dir] {
		return true
	}
	for i := range len(dir) { // it was moved together with one above it
		if dir[i] == '/' && t.seen[dir[:i]] {
			return true
		}
	}
	return dir != "" && t.seen[dir]
}
