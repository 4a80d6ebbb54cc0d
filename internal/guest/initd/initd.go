// Package initd is the init inside every sandbox: process 1, the parent of all
// commands, and the server of the protocol in package wire.
//
// It runs as the guest's root with CAP_SETUID, CAP_SETGID and CAP_KILL and
// nothing else; what it runs and whatever file it touches it does as the
// sandbox's user. It imports little, because it is entered while the program
// that carries it is still initialising.
package initd

import (
	"os"
	"syscall"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// server is what the operations share.
type server struct {
	reaper *reaper
	groups *groups
	user   user // the sandbox's own, whose permissions decide about its files
	fuse   *fuse
}

// Main serves the protocol on the socket args[0] until the sandbox ends, or
// is the short step between the init and a command with limits. It does not
// return.
func Main(args []string) {
	if args[0] == limited {
		becomeLimited(args[1:])
	}
	if os.Getpid() != 1 {
		fatal("start", syscall.EINVAL) // outside of a sandbox it would work on the host's cgroups
	}
	syscall.Umask(0o022)
	groups, err := newGroups(cgroupRoot)
	if err != nil {
		fatal("cgroup", err)
	}
	listener, err := listen(args[0])
	if err != nil {
		fatal("listen", err)
	}
	s := &server{user: user{UID, GID}, groups: groups, reaper: newReaper(groups.sweep), fuse: newFuse()}
	a := &acceptors{listener: listener, serve: s.serve}
	go a.run()
	a.run()
	select {}
}

// UID and GID are the sandbox's own user.
const (
	UID = 1000
	GID = 1000
)

func fatal(what string, err error) {
	os.Stderr.WriteString("sandbox init: " + what + ": " + err.Error() + "\n")
	os.Exit(1)
}

// serve carries out the one operation of a connection.
func (s *server) serve(c *conn) {
	defer c.Close()
	var r wire.Request
	kind, payload, err := c.in.Next()
	if err != nil {
		return
	}
	if kind != wire.KindRequest {
		c.fail(&wire.Error{Errno: syscall.EPROTO})
		return
	}
	if err := r.Decode(payload); err != nil {
		c.fail(&wire.Error{Errno: syscall.EPROTO, Text: err.Error()})
		return
	}
	if c.hungUp() {
		return // a call that was given up while it waited is not to have an effect
	}
	if err := s.do(c, &r); err != nil {
		c.fail(wireError(err))
	}
	c.flush()
}

func (s *server) do(c *conn, r *wire.Request) error {
	switch r.Op {
	case wire.OpPing:
		return c.send(wire.KindOK, nil)
	case wire.OpWatch:
		return s.watch(c, r)
	case wire.OpExec:
		return s.exec(c, r)
	case wire.OpStat, wire.OpLstat:
		return s.stat(c, r)
	case wire.OpReadlink:
		return s.readlink(c, r)
	case wire.OpReadDir:
		return s.readDir(c, r)
	case wire.OpRead:
		return s.read(c, r)
	case wire.OpWrite:
		return s.write(c, r)
	case wire.OpMkdir:
		return s.mkdir(c, r)
	case wire.OpRemove:
		return s.remove(c, r)
	case wire.OpDial:
		return dial(c, r)
	case wire.OpPorts:
		return ports(c)
	case wire.OpShed:
		return s.shed(c)
	case wire.OpTree:
		return s.tree(c, r)
	}
	return &wire.Error{Errno: syscall.ENOSYS, Text: "unknown operation"}
}
