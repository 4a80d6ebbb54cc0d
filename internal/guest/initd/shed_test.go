package initd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// sized is a fake group of a command with so much memory, which ends as soon
// as it is killed.
func sized(t *testing.T, g *groups, name, memory string) *group {
	t.Helper()
	c := fakeGroup(t, g, name)
	t.Cleanup(func() { closeFDs(&c.dir) })
	for file, s := range map[string]string{"memory.current": memory, "cgroup.kill": "", "cgroup.events": "populated 0\n"} {
		if err := os.WriteFile(filepath.Join(c.path, file), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g.live[c] = struct{}{}
	return c
}

func TestLargest(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	none, most := g.largest()
	is.True(none == nil && most == 0)
	sized(t, g, "empty", "0\n")
	sized(t, g, "odd", "much\n")
	none, _ = g.largest()
	is.True(none == nil) // nothing to gain
	small, left := sized(t, g, "small", "4096\n"), sized(t, g, "left", "18446744073709551615\n")
	delete(g.live, left) // its command has ended
	g.pending = append(g.pending, left)
	big, most := g.largest()
	is.True(big == left && most == 1<<64-1) // what is left behind counts too
	left.shed.Store(true)
	big, most = g.largest()
	is.True(big == small && most == 4096) // nothing is killed twice
	is.NoErr(os.RemoveAll(small.path))
	none, _ = g.largest()
	is.True(none == nil) // it has just gone
}

func TestShed(t *testing.T) {
	is := is.New(t)
	g := fakeGroups(t)
	c := sized(t, g, "command", "12345\n")
	shed := func() (reply wire.Shed) {
		h := serving(t, &server{groups: g})
		h.send(wire.KindRequest, (&wire.Request{Op: wire.OpShed}).Append(nil))
		is.NoErr(reply.Decode([]byte(h.next(wire.KindOK))))
		return reply
	}
	is.Equal(shed(), wire.Shed{Killed: true, Memory: 12345})
	is.Equal(contents(t, c.path, "cgroup.kill"), "1")
	is.True(c.shed.Load())
	is.Equal(shed(), wire.Shed{}) // nothing is left
}

func TestShedOfWhatIsGone(t *testing.T) {
	is := is.New(t)
	c := sized(t, fakeGroups(t), "command", "1\n")
	is.NoErr(os.Remove(filepath.Join(c.path, "cgroup.kill")))
	is.NoErr(c.end())
}
