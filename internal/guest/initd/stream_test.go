package initd

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// piped makes a pipe of which the init's end does not block.
func piped(t *testing.T, ours int) (fd int, other *os.File) {
	t.Helper()
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(p[ours], true); err != nil {
		t.Fatal(err)
	}
	other = os.NewFile(uintptr(p[1-ours]), "other")
	t.Cleanup(func() { other.Close() })
	return p[ours], other
}

// source is an output and where a command would write.
func source(t *testing.T) (*output, *os.File) {
	fd, w := piped(t, 0)
	out := &output{fd: fd, kind: wire.KindStdout, room: wire.Window, left: untilEnd}
	t.Cleanup(out.close)
	return out, w
}

func write(t *testing.T, f *os.File, s string) {
	t.Helper()
	if _, err := f.WriteString(s); err != nil {
		t.Fatal(err)
	}
}

func TestOutput(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	defer c.Close()
	out, w := source(t)
	is.NoErr(out.copy(c)) // there is nothing yet
	is.True(out.open())
	write(t, w, "hello")
	is.NoErr(out.copy(c))
	is.Equal(h.next(wire.KindStdout), "hello")
	is.Equal(out.room, wire.Window-5)
	w.Close()
	is.NoErr(out.copy(c))
	is.True(!out.open())
}

// TestOutputKeepsWithinRoom: never more is sent than the host has room for.
func TestOutputKeepsWithinRoom(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	defer c.Close()
	out, w := source(t)
	out.room = 3
	write(t, w, "12345")
	is.NoErr(out.copy(c))
	is.Equal(h.next(wire.KindStdout), "123")
	is.Equal(out.room, 0)
	out.room = 100
	is.NoErr(out.copy(c))
	is.Equal(h.next(wire.KindStdout), "45")
}

// TestOutputFinishes with what lies in the pipe, whoever goes on writing.
func TestOutputFinishes(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	defer c.Close()
	out, w := source(t)
	write(t, w, "what the command wrote")
	out.finish()
	write(t, w, ", and another")
	out.finish() // twice is once
	is.True(out.open())
	is.NoErr(out.copy(c))
	is.Equal(h.next(wire.KindStdout), "what the command wrote")
	is.True(!out.open())
	empty, _ := source(t)
	empty.finish()
	is.True(!empty.open())
}

// TestOutputGrows: a stream that fills its buffer gets a larger one, up to a
// frame.
func TestOutputGrows(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	defer c.Close()
	out, w := source(t)
	total, largest := 0, 0
	for range 40 {
		write(t, w, strings.Repeat("x", 60_000))
		for before := -1; before != out.room; {
			before = out.room
			is.NoErr(out.copy(c))
			if out.room < before {
				n := len(h.next(wire.KindStdout))
				total, largest = total+n, max(largest, n)
			}
			out.room = max(out.room, wire.Window/2)
		}
	}
	is.True(total >= 40*60_000)
	is.True(largest > chunk)
	is.True(len(out.buf.Payload()) <= wire.MaxData)
}

func TestOutputToLostHost(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	defer c.Close()
	h.Close()
	out, w := source(t)
	write(t, w, "output")
	is.True(out.copy(c) != nil)
}

// TestLeave: who still writes after the host's interest has ended is read on.
func TestLeave(t *testing.T) {
	is := is.New(t)
	out, w := source(t)
	out.leave()
	is.Equal(out.fd, -1)
	write(t, w, strings.Repeat("x", 1<<20)) // more than a pipe holds
	w.Close()
	out.leave() // twice is once
}

// sink is a feed and where a command would read.
func sink(t *testing.T) (*feed, *os.File) {
	fd, r := piped(t, 1)
	in := &feed{fd: fd}
	t.Cleanup(in.close)
	return in, r
}

func read(t *testing.T, f *os.File) string {
	t.Helper()
	buf := make([]byte, 1<<20)
	n, err := f.Read(buf)
	if err != nil {
		return err.Error()
	}
	return string(buf[:n])
}

func TestFeed(t *testing.T) {
	is := is.New(t)
	c, _ := connected(t)
	defer c.Close()
	in, r := sink(t)
	is.True(!in.waiting())
	is.NoErr(in.add([]byte("one ")))
	is.NoErr(in.add([]byte("two")))
	is.True(in.waiting())
	is.NoErr(in.copy(c))
	is.Equal(read(t, r), "one two")
	is.True(!in.waiting())
	is.NoErr(in.add([]byte("last")))
	in.end()
	is.True(in.waiting()) // the end comes after what is queued
	is.NoErr(in.copy(c))
	is.Equal(read(t, r), "last")
	is.Equal(read(t, r), "EOF")
	is.Equal(in.fd, -1)
}

func TestFeedEnds(t *testing.T) {
	is := is.New(t)
	in, r := sink(t)
	in.end()
	is.Equal(read(t, r), "EOF")
	is.NoErr(in.add([]byte("too late")))
	is.True(!in.waiting())
}

// TestFeedKeepsWithinWindow: a host that sends more than it has room for is
// refused.
func TestFeedKeepsWithinWindow(t *testing.T) {
	is := is.New(t)
	in, _ := sink(t)
	is.NoErr(in.add(make([]byte, wire.Window)))
	is.Equal(in.add([]byte{0}), syscall.EPROTO)
	is.Equal(len(in.queue), wire.Window)
	closed := &feed{fd: -1}
	for range 10 {
		is.NoErr(closed.add(make([]byte, wire.Window))) // what nobody reads is not kept
	}
	is.Equal(len(closed.queue), 0)
}

// TestFeedGivesCredit for all that the command has taken, and not more.
func TestFeedGivesCredit(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	defer c.Close()
	in, r := sink(t)
	const total = wire.Window + wire.Window/2
	sent, credit := 0, 0
	for taken := 0; taken < total; {
		for sent-credit < wire.Window && sent < total {
			n := min(wire.MaxData, wire.Window-(sent-credit), total-sent)
			is.NoErr(in.add(make([]byte, n)))
			sent += n
		}
		owed := in.owed
		is.NoErr(in.copy(c))
		taken += len(read(t, r))
		if in.owed < owed || in.owed == 0 {
			stream, n, err := wire.ParseCredit([]byte(h.next(wire.KindCredit)))
			is.NoErr(err)
			is.Equal(stream, wire.KindStdin)
			credit += n
		}
		is.True(credit <= taken)
	}
	is.Equal(credit+in.owed, total)
}

// TestFeedToClosedInput: the host is told that nobody reads.
func TestFeedToClosedInput(t *testing.T) {
	is := is.New(t)
	c, h := connected(t)
	defer c.Close()
	in, r := sink(t)
	r.Close()
	is.NoErr(in.add([]byte("input")))
	is.NoErr(in.copy(c))
	h.next(wire.KindCloseStdin)
	is.True(!in.waiting())
	is.Equal(in.fd, -1)
}

// openFiles counts this process's descriptors.
func openFiles(t *testing.T) int { return len(names(t, "/proc/self/fd")) }

func TestOpenStdio(t *testing.T) {
	for name, r := range map[string]wire.Request{
		"nothing":  {},
		"stdin":    {Streams: wire.Stdin},
		"outputs":  {Streams: wire.Stdout | wire.Stderr},
		"merged":   {Streams: wire.Stdin | wire.Stdout | wire.Merged},
		"terminal": {Terminal: true, Rows: 10, Cols: 20},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			before := openFiles(t)
			io, err := openStdio(&r)
			is.NoErr(err)
			ours := map[wire.Streams]int{wire.Stdin: io.stdin, wire.Stdout: io.stdout, wire.Stderr: io.stderr}
			for bit, fd := range ours {
				has := r.Streams&bit != 0 || r.Terminal && bit != wire.Stderr
				is.Equal(fd >= 0, has) // there is a stream if one is asked for
			}
			for _, fd := range io.child {
				is.True(fd >= 0) // the command has all three
			}
			io.closeChild()
			io.closeHost()
			io.closeHost() // twice is once
			is.Equal(openFiles(t), before)
		})
	}
}

func TestMergedStreams(t *testing.T) {
	is := is.New(t)
	io, err := openStdio(&wire.Request{Streams: wire.Stdout | wire.Merged})
	is.NoErr(err)
	defer io.closeHost()
	for i, fd := range []int{io.child[1], io.child[2], io.child[1], io.child[2]} {
		_, err := syscall.Write(fd, []byte{byte('1' + i)})
		is.NoErr(err)
	}
	io.closeChild()
	buf := make([]byte, 10)
	n, err := syscall.Read(io.stdout, buf)
	is.NoErr(err)
	is.Equal(string(buf[:n]), "1234") // one pipe has them in order
}
