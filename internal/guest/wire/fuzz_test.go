//go:build linux

package wire_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

// FuzzReader: whatever comes, and in whatever pieces, the frames are the ones
// that were sent, and the buffer stays within the limits.
func FuzzReader(f *testing.F) {
	f.Add([]byte{})
	f.Add(frame(wire.KindOK, ""))
	f.Add(append(frame(wire.KindRequest, "\x01\x01\x01\x01"), frame(wire.KindData, "data")...))
	f.Add(header(wire.KindData, wire.MaxData))
	f.Add(header(wire.KindRequest, wire.MaxRequest))
	f.Add(append(frame(wire.KindStdout, "out"), header(wire.KindStdout, 1<<32-1)...))
	f.Add(bytes.Repeat(frame(wire.KindStdin, "0123456789"), 400))
	f.Fuzz(func(t *testing.T, b []byte) {
		counted := &counter{r: bytes.NewReader(b)}
		r := wire.NewReader(counted)
		single := wire.NewReader(iotest.OneByteReader(bytes.NewReader(b)))
		var again []byte
		for {
			ready, reads := r.Ready(), counted.reads
			kind, payload, err := r.Next()
			if ready && err == nil && counted.reads != reads {
				t.Fatal("a ready frame took a read")
			}
			if !ready && err == nil && counted.reads == reads {
				t.Fatal("a frame that was not ready took none")
			}
			kind1, payload1, err1 := single.Next()
			if kind != kind1 || !bytes.Equal(payload, payload1) || err != err1 {
				t.Fatalf("at once: %d %q %v; byte by byte: %d %q %v", kind, payload, err, kind1, payload1, err1)
			}
			if err != nil {
				checkEnd(t, b[len(again):], err)
				break
			}
			if len(payload) > limitOf(kind) {
				t.Fatalf("a payload of %d bytes", len(payload))
			}
			again = wire.AppendFrame(again, kind, payload)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("%q became %q", b, again)
		}
		if counted.largest > wire.MaxRequest+headerLen {
			t.Fatalf("a buffer of %d bytes", counted.largest)
		}
	})
}

// checkEnd checks the error of a Reader that has rest before it.
func checkEnd(t *testing.T, rest []byte, err error) {
	t.Helper()
	switch {
	case len(rest) == 0:
		if err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	case len(rest) >= headerLen && err == wire.ErrTooLong:
		n := uint32(rest[1]) | uint32(rest[2])<<8 | uint32(rest[3])<<16 | uint32(rest[4])<<24
		if n <= uint32(limitOf(wire.Kind(rest[0]))) {
			t.Fatalf("%d bytes are too long", n)
		}
	case err != io.ErrUnexpectedEOF:
		t.Fatalf("before %q: %v", rest, err)
	}
}

// FuzzRequest: what decodes, encodes to what decodes to the same.
func FuzzRequest(f *testing.F) {
	for _, r := range []wire.Request{
		{},
		{Op: wire.OpExec, Argv: []string{"sh", ""}, Env: []string{"A=b"}, Dir: "/", Limits: []wire.Limit{{Resource: 1, Value: 2}}},
		{Op: wire.OpWatch, Deadline: time.Unix(1, 2), Orphan: 3, Bounds: wire.Bounds{Memory: 4, Pids: 5}},
		{Op: wire.OpTree, Tree: wire.Tree{Entries: 1, Depth: 2, SkipHidden: true, Skip: []string{"a", ""}, Except: []string{"b"}, Track: true}},
		{Op: wire.OpWrite, Path: "/p", Perm: 0o644, Offset: -1, All: true, Port: 80},
	} {
		f.Add(r.Append(nil))
	}
	f.Add([]byte{wire.Version + 1})
	f.Add([]byte{wire.Version, 200, 1, 0})
	f.Add([]byte{wire.Version, 2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again wire.Request
		err := r.Decode(b)
		if len(b) > 0 && (b[0] > wire.Version) != errors.Is(err, wire.ErrVersion) {
			t.Fatalf("version %d: %v", b[0], err)
		}
		if err != nil {
			return
		}
		size := len(r.Dir) + len(r.Path) + 2*(len(r.Argv)+len(r.Env)+len(r.Limits))
		for _, s := range append(r.Argv, r.Env...) {
			size += len(s)
		}
		if size > len(b) {
			t.Fatalf("%d bytes hold %d", len(b), size)
		}
		if r.Deadline.Equal(time.Unix(0, 0)) {
			r.Deadline = time.Time{} // TestRequestDeadlineAtEpoch
		}
		if err := again.Decode(r.Append(nil)); err != nil || !sameRequest(r, again) {
			t.Fatalf("%+v\nbecame %+v, %v", r, again, err)
		}
	})
}

// FuzzReplies is FuzzRequest for what an init sends.
func FuzzReplies(f *testing.F) {
	stat := wire.Stat{Name: "n", Size: 1, Mode: 2, ModTime: time.Unix(3, 4)}
	f.Add(stat.Append(nil))
	f.Add(wire.AppendEntry(wire.AppendEntry(nil, &stat), &wire.Stat{}))
	f.Add(wire.AppendTreeEntry(wire.AppendTreeEntry(nil, &wire.TreeEntry{Stat: stat, Changed: true}), &wire.TreeEntry{Omitted: wire.OmittedDepth}))
	f.Add((&wire.Error{Phase: 1, Errno: 2, Path: "p", Text: "t"}).Append(nil))
	f.Add((&wire.Exit{Code: 1, Signal: 2, Killed: true, Shed: true}).Append(nil))
	f.Add((&wire.Shed{Killed: true, Memory: 1 << 40}).Append(nil))
	f.Add(wire.Credit(wire.KindStdout, wire.Window))
	f.Add([]byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzStat(t, b)
		fuzzEntries(t, b)
		fuzzTree(t, b)
		var e, e1 wire.Error
		if e.Decode(b) == nil {
			if err := e1.Decode(e.Append(nil)); err != nil || e != e1 {
				t.Fatalf("%+v became %+v, %v", e, e1, err)
			}
			if e.Error() == "" && e.Text != "" || len(e.Text)+len(e.Path) > len(b) {
				t.Fatalf("%+v says %q", e, e.Error())
			}
		}
		var x, x1 wire.Exit
		if x.Decode(b) == nil {
			if err := x1.Decode(x.Append(nil)); err != nil || x != x1 || x.Code < 0 || x.Code > 255 || x.Signal < 0 || x.Signal > 127 {
				t.Fatalf("%+v became %+v, %v", x, x1, err)
			}
		}
		var d, d1 wire.Shed
		if d.Decode(b) == nil {
			if err := d1.Decode(d.Append(nil)); err != nil || d != d1 {
				t.Fatalf("%+v became %+v, %v", d, d1, err)
			}
		}
		if stream, n, err := wire.ParseCredit(b); err == nil && (n < 0 || n > wire.Window || stream != wire.Kind(b[0])) {
			t.Fatalf("a credit of %d", n)
		}
		if ports, err := wire.ParsePorts(b); err == nil && !bytes.Equal(wire.Ports(ports), b) {
			t.Fatalf("ports %v", ports)
		}
		if rows, cols, err := wire.ParseSize(b); err == nil && !bytes.Equal(wire.Size(rows, cols), b) {
			t.Fatalf("size %d, %d", rows, cols)
		}
	})
}

func fuzzStat(t *testing.T, b []byte) {
	var s, again wire.Stat
	if s.Decode(b) != nil {
		return
	}
	s = timely(s)
	if err := again.Decode(s.Append(nil)); err != nil || !sameStat(s, again) || s.Size < 0 || len(s.Name) > len(b) {
		t.Fatalf("%+v became %+v, %v", s, again, err)
	}
	_ = s.FileMode().String()
}

func fuzzTree(t *testing.T, b []byte) {
	count := 0
	var again []byte
	err := wire.EachTreeEntry(b, func(e *wire.TreeEntry) error {
		count++
		e.Stat = timely(e.Stat)
		again = wire.AppendTreeEntry(again, e)
		return nil
	})
	if err != nil {
		return
	}
	if 2*count > len(b) {
		t.Fatalf("%d bytes hold %d entries", len(b), count)
	}
	if err := wire.EachTreeEntry(again, func(*wire.TreeEntry) error { count--; return nil }); err != nil || count != 0 {
		t.Fatalf("%d entries more or less, %v", count, err)
	}
}

func fuzzEntries(t *testing.T, b []byte) {
	var list []wire.Stat
	var again []byte
	err := wire.EachEntry(b, func(s wire.Stat) error {
		s = timely(s)
		list = append(list, s)
		again = wire.AppendEntry(again, &s)
		return nil
	})
	if err != nil {
		return
	}
	if 2*len(list) > len(b) {
		t.Fatalf("%d bytes hold %d entries", len(b), len(list))
	}
	i := 0
	err = wire.EachEntry(again, func(s wire.Stat) error {
		if !sameStat(s, list[i]) {
			t.Fatalf("%+v became %+v", list[i], s)
		}
		i++
		return nil
	})
	if err != nil || i != len(list) {
		t.Fatalf("%d of %d entries, %v", i, len(list), err)
	}
}

// timely replaces the two times that Stat confuses: see TestStatKeepsAnyTime.
func timely(s wire.Stat) wire.Stat {
	if s.ModTime.IsZero() || s.ModTime.Equal(time.Unix(0, 0)) {
		s.ModTime = time.Unix(0, 1)
	}
	return s
}
