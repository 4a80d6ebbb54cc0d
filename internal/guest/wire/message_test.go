package wire_test

import (
	"encoding/hex"
	"errors"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

func recode(t *testing.T, r *wire.Request) wire.Request {
	t.Helper()
	var got wire.Request
	if err := got.Decode(r.Append(nil)); err != nil {
		t.Fatalf("decode %+v: %v", r, err)
	}
	return got
}

// sameRequest compares but for what no encoding keeps: a time's zone, and
// whether an empty list is nil.
func sameRequest(a, b wire.Request) bool {
	if !a.Deadline.Equal(b.Deadline) || !slices.Equal(a.Argv, b.Argv) || !slices.Equal(a.Env, b.Env) || !slices.Equal(a.Limits, b.Limits) {
		return false
	}
	for _, r := range []*wire.Request{&a, &b} {
		r.Deadline, r.Argv, r.Env, r.Limits = time.Time{}, nil, nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func TestRequestRoundTrip(t *testing.T) {
	for _, r := range []wire.Request{
		{},
		{Op: wire.OpPing},
		{
			Op: wire.OpExec, Argv: []string{"sh", "", "-c", "echo \x00\xff"}, Env: []string{"", "A=", "A=b"}, Dir: "/work",
			UID: 1000, GID: 1001, Streams: wire.Stdin | wire.Merged, Terminal: true, Rows: 24, Cols: 80,
			WaitDelay: 100 * time.Millisecond, Limits: []wire.Limit{{Resource: 9, Value: 1 << 40}, {}, {Resource: 7, Value: math.MaxUint64}},
		},
		{Op: 255, UID: math.MaxUint32, GID: math.MaxUint32, Rows: math.MaxUint16, Cols: math.MaxUint16, Port: math.MaxUint16, Perm: math.MaxUint32},
		{Offset: math.MaxInt64, WaitDelay: math.MaxInt64, Orphan: math.MaxInt64},
		{Offset: -1, WaitDelay: -1, Orphan: math.MinInt64},
		{Op: wire.OpWatch, Deadline: time.Unix(1_900_000_000, 123), Orphan: time.Second},
		{Deadline: time.Unix(-1, 0)},
		{Op: wire.OpWatch, Bounds: wire.Bounds{Memory: math.MaxUint64, Quota: 1, Pids: 2, AllPids: 3}},
		{Op: wire.OpShed, Bounds: wire.Bounds{AllPids: math.MaxUint64}},
		{Path: strings.Repeat("long/", 100_000), All: true},
		{Argv: make([]string, 10_000)},
	} {
		if got := recode(t, &r); !sameRequest(got, r) {
			t.Errorf("%+v\nbecame %+v", r, got)
		}
	}
}

func TestRequestDeadlineAtEpoch(t *testing.T) {
	is := is.New(t)
	got := recode(t, &wire.Request{Deadline: time.Unix(0, 0)})
	is.True(!got.Deadline.IsZero()) // long past is not never
}

// anyRequest is a Request with whatever its fields can hold.
type anyRequest wire.Request

func (anyRequest) Generate(r *rand.Rand, size int) reflect.Value {
	list := func() []string {
		var l []string
		for range r.Intn(size + 1) {
			l = append(l, anyString(r, size))
		}
		return l
	}
	req := anyRequest{
		Op: wire.Op(r.Uint32()), Argv: list(), Env: list(), Dir: anyString(r, size),
		UID: r.Uint32(), GID: r.Uint32(), Streams: wire.Streams(r.Uint32()), Terminal: r.Intn(2) == 0,
		Rows: uint16(r.Uint32()), Cols: uint16(r.Uint32()), WaitDelay: time.Duration(r.Uint64()),
		Path: anyString(r, size), Perm: r.Uint32(), Offset: int64(r.Uint64()), All: r.Intn(2) == 0,
		Port: uint16(r.Uint32()), Deadline: time.Unix(0, int64(r.Uint64())), Orphan: time.Duration(r.Uint64()),
		Bounds: wire.Bounds{Memory: r.Uint64(), Quota: r.Uint64(), Pids: r.Uint64(), AllPids: r.Uint64()},
	}
	for range r.Intn(4) {
		req.Limits = append(req.Limits, wire.Limit{Resource: int(r.Uint32()), Value: r.Uint64()})
	}
	return reflect.ValueOf(req)
}

func anyString(r *rand.Rand, size int) string {
	b := make([]byte, r.Intn(size+1))
	r.Read(b)
	return string(b)
}

func TestAnyRequestRoundTrips(t *testing.T) {
	same := func(a anyRequest) bool {
		r := wire.Request(a)
		return sameRequest(recode(t, &r), r)
	}
	if err := quick.Check(same, &quick.Config{MaxCount: 500}); err != nil {
		t.Error(err)
	}
}

// TestEveryFieldIsSent finds a field that was added to a message and not to
// its encoding.
func TestEveryFieldIsSent(t *testing.T) {
	for field := range reflect.TypeFor[wire.Request]().Fields() {
		var r wire.Request
		v := reflect.ValueOf(&r).Elem().FieldByIndex(field.Index)
		fillIn(t, v)
		got := recode(t, &r)
		if !sameRequest(got, r) {
			t.Errorf("Request.%s: %v became %v", field.Name, v, reflect.ValueOf(got).FieldByIndex(field.Index))
		}
	}
}

// fillIn sets v to something other than its zero value.
func fillIn(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("text")
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(77)
	case reflect.Int, reflect.Int64:
		v.SetInt(77)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillIn(t, v.Index(0))
		fillIn(t, v.Index(1))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(77, 7)))
			return
		}
		for _, field := range v.Fields() {
			fillIn(t, field)
		}
	default:
		t.Fatalf("no example of %v", v.Type())
	}
}

// TestRequestGolden pins the tags.
func TestRequestGolden(t *testing.T) {
	is := is.New(t)
	r := wire.Request{
		Op: wire.OpExec, Argv: []string{"a", ""}, Env: []string{"K=v"}, Dir: "/d", UID: 1000, GID: 100,
		Streams: wire.Stdout, Terminal: true, Rows: 24, Cols: 80, WaitDelay: 5, Limits: []wire.Limit{{Resource: 9, Value: 300}},
		Path: "/p", Perm: 0o644, Offset: 6, All: true, Port: 80, Deadline: time.Unix(0, 7), Orphan: 8,
		Bounds: wire.Bounds{Memory: 9, Quota: 10, Pids: 11, AllPids: 12},
	}
	is.Equal(hex.EncodeToString(r.Append([]byte{0xff})), "ff"+"01"+
		"010103"+"020161"+"0200"+"03034b3d76"+"04022f64"+"0502e807"+"060164"+
		"070102"+"080101"+"090118"+"0a0150"+"0b0105"+"0c0309ac02"+
		"0d022f70"+"0e02a403"+"0f0106"+"100101"+"110150"+"120107"+"130108"+"140c"+"010109"+"02010a"+"03010b"+"04010c")
}

func TestUnknownTagsAreSkipped(t *testing.T) {
	is := is.New(t)
	unknown := []byte{200, 3, 'n', 'e', 'w', 0, 0, 255, 1, 9}
	want := wire.Request{Op: wire.OpMkdir, Path: "/dir", All: true}
	b := want.Append(nil)
	for _, b := range [][]byte{
		slices.Concat(b, unknown),
		slices.Concat(b[:1], unknown, b[1:]),
	} {
		var got wire.Request
		is.NoErr(got.Decode(b))
		is.Equal(got, want)
	}
}

func TestVersions(t *testing.T) {
	is := is.New(t)
	ping := (&wire.Request{Op: wire.OpPing}).Append(nil)
	is.Equal(ping[0], byte(wire.Version)) // the version comes first
	for _, newer := range []byte{wire.Version + 1, 255} {
		r := wire.Request{Op: wire.OpStat}
		// What a newer version has to say cannot be read, and need not be well-formed.
		err := r.Decode([]byte{newer, 1, 200})
		is.True(errors.Is(err, wire.ErrVersion))
	}
}

func TestDecodeForgets(t *testing.T) {
	is := is.New(t)
	r := wire.Request{Op: wire.OpExec, Argv: []string{"old"}, UID: 1, All: true, Deadline: time.Unix(1, 0)}
	is.NoErr(r.Decode((&wire.Request{Op: wire.OpPing}).Append(nil)))
	is.Equal(r, wire.Request{Op: wire.OpPing})
}

func TestMalformedRequests(t *testing.T) {
	for _, b := range []string{
		"",
		"\x01\x01",         // a tag without a length
		"\x01\x01\x01",     // a value without its bytes
		"\x01\x02\x05abcd", // one byte short
		"\x01\x02\x80",     // an unfinished length
		"\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01abc",  // a length of 2^64-1
		"\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // a length of more than 64 bits
		"\x01\x0c\x00",         // a limit of nothing
		"\x01\x14\x02\x01\x05", // bounds that are cut
		"\x01\xc8\x7f",         // an unknown tag, cut
	} {
		var r wire.Request
		if err := r.Decode([]byte(b)); err == nil {
			t.Errorf("%q was taken as %+v", b, r)
		}
	}
}
