package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/guest/wire"
)

const headerLen = 5

// header is a frame's first bytes, whatever they announce.
func header(kind wire.Kind, n uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{byte(kind)}, n)
}

func frame(kind wire.Kind, payload string) []byte {
	return wire.AppendFrame(nil, kind, []byte(payload))
}

// limitOf is the largest payload that a frame of a kind may have.
func limitOf(kind wire.Kind) int {
	if kind == wire.KindRequest {
		return wire.MaxRequest
	}
	return wire.MaxData
}

func TestFrameLimits(t *testing.T) {
	for _, kind := range []wire.Kind{wire.KindRequest, wire.KindOK, wire.KindError, wire.KindData, wire.KindStdout, wire.KindExit, 0, 255} {
		is := is.New(t)
		limit := limitOf(kind)
		want := strings.Repeat("x", limit)
		r := wire.NewReader(bytes.NewReader(frame(kind, want)))
		got, payload, err := r.Next()
		is.NoErr(err)                    // a frame at its limit
		is.Equal(got, kind)              // kind
		is.True(string(payload) == want) // payload
		_, _, err = r.Next()
		is.Equal(err, io.EOF)          // nothing follows
		is.Equal(len(r.Buffered()), 0) // nor is anything left
		for _, n := range []uint32{uint32(limit) + 1, 1 << 31, 1<<32 - 1} {
			counted := &counter{r: io.MultiReader(bytes.NewReader(header(kind, n)), iotest.ErrReader(errors.New("read on")))}
			_, _, err := wire.NewReader(counted).Next()
			is.Equal(err, wire.ErrTooLong)     // a frame that announces too much
			is.True(counted.largest <= 64<<10) // and nothing is set aside for it
		}
	}
}

// counter notes how much room a Reader offers at most: the size of its buffer.
type counter struct {
	r       io.Reader
	largest int
	reads   int
}

func (c *counter) Read(p []byte) (int, error) {
	c.largest = max(c.largest, len(p))
	c.reads++
	return c.r.Read(p)
}

// sources are ways in which the same bytes may come.
var sources = map[string]func(io.Reader) io.Reader{
	"as asked":        func(r io.Reader) io.Reader { return r },
	"byte by byte":    iotest.OneByteReader,
	"by halves":       iotest.HalfReader,
	"end with data":   iotest.DataErrReader,
	"bytes, with end": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
}

func TestTruncatedFrames(t *testing.T) {
	whole := append(frame(wire.KindOK, ""), frame(wire.KindData, "some data")...)
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			for cut := range len(whole) + 1 {
				want, frames := io.ErrUnexpectedEOF, 0
				if cut >= headerLen {
					frames = 1
				}
				if cut == len(whole) {
					frames = 2
				}
				if cut == 0 || cut == headerLen || cut == len(whole) {
					want = io.EOF
				}
				r := wire.NewReader(source(bytes.NewReader(whole[:cut])))
				for range frames {
					_, _, err := r.Next()
					is.NoErr(err) // a frame before the cut
				}
				for range 2 {
					_, _, err := r.Next()
					is.Equal(err, want) // the end, also when asked again
				}
			}
		})
	}
}

func TestReadErrorIsPassedOn(t *testing.T) {
	broken := errors.New("broken")
	whole := frame(wire.KindData, "some data")
	for cut := range len(whole) {
		is := is.New(t)
		r := wire.NewReader(io.MultiReader(bytes.NewReader(whole[:cut]), iotest.ErrReader(broken)))
		_, _, err := r.Next()
		is.Equal(err, broken) // the reader's own error
	}
}

// TestManyFrames reads frames of all sizes, as they come from a stream that
// knows nothing of frames.
func TestManyFrames(t *testing.T) {
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			rnd := rand.New(rand.NewPCG(1, 2))
			var stream []byte
			var want []string
			for _, size := range []int{0, 1, 4091, 4092, 4096, 8187, 0, 100_000, 3, wire.MaxData, 17, 0, wire.MaxData, 2} {
				p := make([]byte, size)
				for i := range p {
					p[i] = byte(rnd.Uint32())
				}
				want = append(want, string(p))
				stream = wire.AppendFrame(stream, wire.KindData, p)
			}
			counted := &counter{r: source(bytes.NewReader(stream))}
			r := wire.NewReader(counted)
			for _, w := range want {
				kind, payload, err := r.Next()
				is.NoErr(err)
				is.Equal(kind, wire.KindData)
				is.True(string(payload) == w) // the payload as it was sent
			}
			_, _, err := r.Next()
			is.Equal(err, io.EOF)
			is.True(counted.largest <= wire.MaxData+headerLen) // the buffer is no larger than a frame
		})
	}
}

func TestReady(t *testing.T) {
	is := is.New(t)
	part := frame(wire.KindStdin, "incomplete")[:8]
	stream := bytes.Join([][]byte{frame(wire.KindOK, ""), frame(wire.KindStdin, "one"), frame(wire.KindCloseStdin, ""), part}, nil)
	counted := &counter{r: bytes.NewReader(stream)}
	r := wire.NewReader(counted)
	is.True(!r.Ready())            // nothing was read yet
	is.Equal(len(r.Buffered()), 0) // nor is there anything
	kind, _, err := r.Next()
	is.NoErr(err)
	is.Equal(kind, wire.KindOK)
	is.Equal(string(r.Buffered()), string(stream[headerLen:]))
	reads := counted.reads
	for _, want := range []wire.Kind{wire.KindStdin, wire.KindCloseStdin} {
		is.True(r.Ready()) // the frame is here
		kind, _, err = r.Next()
		is.NoErr(err)
		is.Equal(kind, want)
	}
	is.Equal(counted.reads, reads)               // a frame that is Ready needs no read
	is.True(!r.Ready())                          // a part of a frame is none
	is.Equal(string(r.Buffered()), string(part)) // but it is there
	_, _, err = r.Next()
	is.Equal(err, io.ErrUnexpectedEOF)
	is.Equal(string(r.Buffered()), string(part)) // and stays
}

func TestReadyOfPartialFrame(t *testing.T) {
	second := frame(wire.KindData, "payload")
	for cut := range len(second) {
		is := is.New(t)
		r := wire.NewReader(bytes.NewReader(append(frame(wire.KindOK, "ok"), second[:cut]...)))
		_, _, err := r.Next()
		is.NoErr(err)
		is.True(!r.Ready()) // there is still something to come
		is.Equal(len(r.Buffered()), cut)
	}
}

// TestTurnToRawBytes: what a Reader read too much and what it did not read are
// together what was sent.
func TestTurnToRawBytes(t *testing.T) {
	for name, source := range sources {
		is := is.New(t)
		raw := strings.Repeat("raw bytes, no frames. ", 1000)
		in := source(io.MultiReader(bytes.NewReader(frame(wire.KindOK, "")), strings.NewReader(raw)))
		r := wire.NewReader(in)
		_, _, err := r.Next()
		is.NoErr(err)
		got, err := io.ReadAll(io.MultiReader(bytes.NewReader(r.Buffered()), in))
		is.NoErr(err)
		if string(got) != raw {
			t.Errorf("%s: %d bytes became %d", name, len(raw), len(got))
		}
	}
}

func TestAppendFrameKeepsWhatIsThere(t *testing.T) {
	is := is.New(t)
	b := wire.AppendFrame([]byte("before"), wire.KindData, []byte("data"))
	is.Equal(string(b), "before\x04\x04\x00\x00\x00data")
}

func TestBuffer(t *testing.T) {
	for _, size := range []int{0, 1, 1000, wire.MaxData} {
		is := is.New(t)
		buf := wire.NewBuffer(size)
		is.Equal(len(buf.Payload()), size)
		for _, n := range []int{0, size / 2, size} {
			want := bytes.Repeat([]byte{'x'}, n)
			copy(buf.Payload(), want)
			is.True(bytes.Equal(buf.Frame(wire.KindStdout, n), wire.AppendFrame(nil, wire.KindStdout, want))) // the frame in place is the frame
		}
	}
}

// TestNumbers pins what both sides must agree on, since an init may be older
// than its Runtime.
func TestNumbers(t *testing.T) {
	is := is.New(t)
	is.Equal([]wire.Kind{
		wire.KindRequest, wire.KindOK, wire.KindError, wire.KindData, wire.KindEnd,
		wire.KindStdin, wire.KindStdout, wire.KindStderr, wire.KindCloseStdin, wire.KindCredit,
		wire.KindSignal, wire.KindResize, wire.KindClose, wire.KindKill, wire.KindExit,
	}, []wire.Kind{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	is.Equal([]wire.Op{
		wire.OpPing, wire.OpWatch, wire.OpExec, wire.OpStat, wire.OpLstat, wire.OpReadlink, wire.OpReadDir,
		wire.OpRead, wire.OpWrite, wire.OpMkdir, wire.OpRemove, wire.OpDial, wire.OpPorts,
	}, []wire.Op{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	is.Equal([]wire.Streams{wire.Stdin, wire.Stdout, wire.Stderr, wire.Merged}, []wire.Streams{1, 2, 4, 8})
	is.Equal([]wire.Phase{wire.PhaseCall, wire.PhaseStart}, []wire.Phase{0, 1})
}
