//go:build linux

package wire_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/quick"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

func sameStat(a, b wire.Stat) bool {
	return a.Name == b.Name && a.Size == b.Size && a.Mode == b.Mode && a.ModTime.Equal(b.ModTime) && a.Changed.Equal(b.Changed)
}

func recodeStat(t *testing.T, s wire.Stat) wire.Stat {
	t.Helper()
	var got wire.Stat
	if err := got.Decode(s.Append(nil)); err != nil {
		t.Fatalf("decode %+v: %v", s, err)
	}
	return got
}

func TestStatRoundTrip(t *testing.T) {
	for _, s := range []wire.Stat{
		{ModTime: time.Unix(1, 0)},
		{Name: "name", Size: 1, Mode: syscall.S_IFREG | 0o644, ModTime: time.Unix(1_800_000_000, 999_999_999)},
		{Name: "changed", ModTime: time.Unix(1, 0), Changed: time.Unix(1_800_000_000, 999_999_999)},
		{Name: "changed at the epoch", ModTime: time.Unix(1, 0), Changed: time.Unix(0, 0)},
		{Name: "\x00\xff", Size: math.MaxInt64, Mode: math.MaxUint32, ModTime: time.Unix(-1, 1)},
	} {
		if got := recodeStat(t, s); !sameStat(got, s) {
			t.Errorf("%+v became %+v", s, got)
		}
	}
	same := func(name string, size int64, mode uint32, nano int64) bool {
		s := wire.Stat{Name: name, Size: size & math.MaxInt64, Mode: mode, ModTime: time.Unix(0, nano)}
		return sameStat(recodeStat(t, s), s)
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
}

func TestStatKeepsAnyTime(t *testing.T) {
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(1<<34, 0), time.Unix(-1<<34, 5)} {
		if got := recodeStat(t, wire.Stat{ModTime: at}); !got.ModTime.Equal(at) {
			t.Errorf("%v became %v", at.UTC(), got.ModTime.UTC())
		}
	}
}

func TestSizeIsNeverNegative(t *testing.T) {
	is := is.New(t)
	is.Equal(recodeStat(t, wire.Stat{Size: -1}).Size, int64(0))
	is.Equal(recodeStat(t, wire.Stat{Size: math.MinInt64}).Size, int64(0))
}

// TestFileMode compares with what package os says of the same files.
func TestFileMode(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("file"), nil, 0o640),
		os.WriteFile(at("setid"), nil, 0o600), os.Chmod(at("setid"), 0o711|fs.ModeSetuid|fs.ModeSetgid),
		os.Mkdir(at("dir"), 0o755), os.Mkdir(at("tmp"), 0o755), os.Chmod(at("tmp"), 0o777|fs.ModeSticky),
		os.Symlink("nowhere", at("link")), syscall.Mkfifo(at("pipe"), 0o604),
		syscall.Mknod(at("socket"), syscall.S_IFSOCK|0o600, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{at("file"), at("setid"), at("dir"), at("tmp"), at("link"), at("pipe"), at("socket"), "/dev/null"} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		s := wire.Stat{Mode: info.Sys().(*syscall.Stat_t).Mode}
		if got := s.FileMode(); got != info.Mode() {
			t.Errorf("%s: %v, os says %v", path, got, info.Mode())
		}
	}
	if block := (&wire.Stat{Mode: syscall.S_IFBLK | 0o660}).FileMode(); block != fs.ModeDevice|0o660 {
		t.Errorf("a block device is %v", block)
	}
}

func TestEntriesRoundTrip(t *testing.T) {
	is := is.New(t)
	var want []wire.Stat
	var b []byte
	for i := range 1000 {
		s := wire.Stat{Name: strings.Repeat("n", i%300), Size: int64(i), Mode: uint32(i), ModTime: time.Unix(int64(i), 1)}
		want = append(want, s)
		b = wire.AppendEntry(b, &s)
	}
	var got []wire.Stat
	is.NoErr(wire.EachEntry(b, func(s wire.Stat) error {
		got = append(got, s)
		return nil
	}))
	is.True(slices.EqualFunc(got, want, sameStat)) // the entries in their order
	is.NoErr(wire.EachEntry(nil, func(wire.Stat) error { return errors.New("an entry in nothing") }))
}

func TestEachEntryStops(t *testing.T) {
	is := is.New(t)
	var b []byte
	for range 3 {
		b = wire.AppendEntry(b, &wire.Stat{Name: "n"})
	}
	stop, seen := errors.New("stop"), 0
	err := wire.EachEntry(b, func(wire.Stat) error {
		seen++
		return stop
	})
	is.Equal(err, stop) // the caller's own error
	is.Equal(seen, 1)
	for cut := 1; cut < len(b)/3; cut++ {
		is.True(wire.EachEntry(b[:cut], func(wire.Stat) error { return nil }) != nil) // a cut entry
	}
	is.True(wire.EachEntry([]byte{1, 2, 1, 9}, func(wire.Stat) error { return nil }) != nil) // a malformed stat in an entry
}

func TestEachEntrySkipsUnknownTags(t *testing.T) {
	is := is.New(t)
	b := wire.AppendEntry([]byte{200, 3, 'n', 'e', 'w'}, &wire.Stat{Name: "n", ModTime: time.Unix(1, 0)})
	var names []string
	is.NoErr(wire.EachEntry(b, func(s wire.Stat) error {
		names = append(names, s.Name)
		return nil
	}))
	is.Equal(names, []string{"n"})
}

func TestErrorRoundTrip(t *testing.T) {
	same := func(phase uint8, errno uint16, path, text string) bool {
		want := wire.Error{Phase: wire.Phase(phase), Errno: syscall.Errno(errno & 0xfff), Path: path, Text: text}
		var got wire.Error
		return got.Decode(want.Append(nil)) == nil && got == want
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]wire.Error{
		"permission denied":                 {Errno: syscall.EACCES},
		"/f: permission denied":             {Errno: syscall.EACCES, Path: "/f"},
		"a sentence":                        {Text: "a sentence"},
		"/f: a sentence":                    {Text: "a sentence", Path: "/f"},
		"/f: a sentence: permission denied": {Text: "a sentence", Errno: syscall.EACCES, Path: "/f", Phase: wire.PhaseStart},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestExitRoundTrip(t *testing.T) {
	for code := range 256 {
		for _, signal := range []syscall.Signal{0, 1, 9, 64, 127} {
			for i := range 4 {
				want := wire.Exit{Code: code, Signal: signal, Killed: i&1 != 0, Shed: i&2 != 0}
				var got wire.Exit
				if err := got.Decode(want.Append(nil)); err != nil || got != want {
					t.Errorf("%+v became %+v, %v", want, got, err)
				}
			}
		}
	}
}

func TestOddExits(t *testing.T) {
	inRange := func(code, signal int, cause uint64) bool {
		b := (&wire.Exit{Code: code, Signal: syscall.Signal(signal)}).Append(nil)
		b = append(binary.AppendUvarint(append(b, 10, byte(len(binary.AppendUvarint(nil, cause)))), cause), 99, 0)
		var e wire.Exit
		return e.Decode(b) == nil && e.Code >= 0 && e.Code < 256 && e.Signal >= 0 && e.Signal < 128 && e.Killed == (cause != 0)
	}
	if err := quick.Check(inRange, nil); err != nil {
		t.Error(err)
	}
}

// TestEveryReplyFieldIsSent is TestEveryFieldIsSent for the replies.
func TestEveryReplyFieldIsSent(t *testing.T) {
	type message interface {
		Append([]byte) []byte
		Decode([]byte) error
	}
	for _, fresh := range []func() message{
		func() message { return &wire.Stat{} },
		func() message { return &wire.Error{} },
		func() message { return &wire.Exit{} },
		func() message { return &wire.Shed{} },
	} {
		for field := range reflect.TypeOf(fresh()).Elem().Fields() {
			m, got := fresh(), fresh()
			v := reflect.ValueOf(m).Elem().FieldByIndex(field.Index)
			fillIn(t, v)
			if err := got.Decode(m.Append(nil)); err != nil {
				t.Fatal(err)
			}
			g := reflect.ValueOf(got).Elem().FieldByIndex(field.Index)
			if fmt.Sprint(v) != fmt.Sprint(g) {
				t.Errorf("%T.%s: %v became %v", m, field.Name, v, g)
			}
		}
	}
}

func TestRepliesSkipUnknownTags(t *testing.T) {
	is := is.New(t)
	unknown := []byte{200, 3, 'n', 'e', 'w'}
	s, e, x := wire.Stat{Name: "n", ModTime: time.Unix(1, 0)}, wire.Error{Text: "t"}, wire.Exit{Code: 3}
	var gs wire.Stat
	is.NoErr(gs.Decode(append(s.Append(nil), unknown...)))
	is.True(sameStat(gs, s))
	var ge wire.Error
	is.NoErr(ge.Decode(append(e.Append(nil), unknown...)))
	is.Equal(ge, e)
	var gx wire.Exit
	is.NoErr(gx.Decode(append(x.Append(nil), unknown...)))
	is.Equal(gx, x)
	d := wire.Shed{Memory: 5}
	var gd wire.Shed
	is.NoErr(gd.Decode(append(d.Append(nil), unknown...)))
	is.Equal(gd, d)
}

func TestCredit(t *testing.T) {
	is := is.New(t)
	for _, n := range []int{0, 1, 127, 128, wire.Window - 1, wire.Window} {
		stream, got, err := wire.ParseCredit(wire.Credit(wire.KindStderr, n))
		is.NoErr(err)
		is.Equal(stream, wire.KindStderr)
		is.Equal(got, n)
	}
	for _, b := range [][]byte{
		nil,
		{},
		{7},
		wire.Credit(wire.KindStdout, wire.Window+1),
		wire.Credit(wire.KindStdout, math.MaxInt64),
		wire.Credit(wire.KindStdout, -1),
	} {
		if stream, n, err := wire.ParseCredit(b); err == nil {
			t.Errorf("%x is a credit of %d for %d", b, n, stream)
		}
	}
}

func TestMalformedCredit(t *testing.T) {
	for _, b := range []string{"\x07\x80", "\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if _, n, err := wire.ParseCredit([]byte(b)); err == nil {
			t.Errorf("%q is a credit of %d", b, n)
		}
	}
}

func TestPorts(t *testing.T) {
	same := func(list []uint16) bool {
		got, err := wire.ParsePorts(wire.Ports(list))
		return err == nil && slices.Equal(got, list)
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
	is := is.New(t)
	_, err := wire.ParsePorts([]byte{1, 2, 3})
	is.True(err != nil) // half a port
	all := make([]uint16, math.MaxUint16)
	is.True(len(wire.Ports(all)) <= wire.MaxData) // all ports fit in a frame
}

func TestSize(t *testing.T) {
	same := func(rows, cols uint16) bool {
		r, c, err := wire.ParseSize(wire.Size(rows, cols))
		return err == nil && r == rows && c == cols
	}
	if err := quick.Check(same, nil); err != nil {
		t.Error(err)
	}
	for _, n := range []int{0, 1, 3, 5} {
		if _, _, err := wire.ParseSize(make([]byte, n)); err == nil {
			t.Errorf("%d bytes are a size", n)
		}
	}
}

// TestNumbersAreAsInBinary: the package has its own of encoding/binary.
func TestNumbersAreAsInBinary(t *testing.T) {
	appended := func(n uint64, shift uint8) bool {
		n >>= shift % 64
		return string(wire.Credit(wire.KindStdout, int(n))[1:]) == string(binary.AppendUvarint(nil, n))
	}
	if err := quick.Check(appended, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	read := func(v []byte, high uint8) bool {
		v = v[:min(len(v), 12)]
		for i := range min(int(high%13), len(v)) {
			v[i] |= 0x80 // so that long numbers are not rare
		}
		want, used := binary.Uvarint(v)
		if used <= 0 {
			want = 0
		}
		var s wire.Stat
		err := s.Decode(append([]byte{2, byte(len(v))}, v...))
		return err == nil && s.Size == max(int64(want), 0)
	}
	if err := quick.Check(read, &quick.Config{MaxCount: 5000}); err != nil {
		t.Error(err)
	}
	ports := func(list []uint16) bool {
		var want []byte
		for _, p := range list {
			want = binary.LittleEndian.AppendUint16(want, p)
		}
		return string(wire.Ports(list)) == string(want)
	}
	if err := quick.Check(ports, nil); err != nil {
		t.Error(err)
	}
}
