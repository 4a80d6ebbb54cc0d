package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// streamCases are about a program's standard streams.
var streamCases = cases{
	{"no stdin is its end", noStdin},
	{"every byte passes", everyByte},
	{"stdin that is not read", unreadStdin},
	{"stdin that does not end", endlessStdin},
	{"stdin that fails", brokenStdin},
	{"stdout and stderr stay apart", apart},
	{"one writer for both", combined},
	{"no writers", discarded},
	{"Output keeps stderr", stderrKept},
	{"writer that fails", writerFails},
	{"writer that fails under a program that goes on", writerFailsEarly},
	{"many at once", manyAtOnce},
}

var errBroken = errors.New("broken on purpose")

// brokenReader is the end of a reader that fails.
type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// pattern returns n bytes of all values, the same only for the same seed.
func pattern(n int, seed byte) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) + byte(i>>8)*3 + byte(i>>16)*5 + seed
	}
	return string(b)
}

func noStdin(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	is.Equal(outputOf(t, sb, "cat"), "")
}

func everyByte(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	for _, n := range []int{0, 1, 256, 1<<20 + 1} {
		in := pattern(n, 0)
		cmd := sb.Command("cat")
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output(bounded(t))
		is.NoErr(err)
		is.True(string(out) == in) // every byte, in order
		cmd = sb.Command("wc", "-c")
		cmd.Stdin = strings.NewReader(in)
		out, err = cmd.Output(bounded(t))
		is.NoErr(err)
		is.Equal(strings.TrimSpace(string(out)), fmt.Sprint(n))
	}
}

func unreadStdin(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := sb.Command("true")
	cmd.Stdin = strings.NewReader(pattern(4<<20, 0)) // more than any buffer on the way
	is.NoErr(cmd.Run(bounded(t)))
}

func endlessStdin(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	r, w := io.Pipe()
	defer w.Close()
	cmd := sb.Command("echo", "done")
	cmd.Stdin = r // nobody writes: a Read is under way when the program ends
	var out bytes.Buffer
	cmd.Stdout = &out
	is.NoErr(within(t, limit, func() error { return cmd.Run(context.Background()) }))
	is.Equal(out.String(), "done\n")
}

func brokenStdin(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := sb.Command("cat")
	cmd.Stdin = io.MultiReader(strings.NewReader("head"), brokenReader{errBroken})
	out, err := cmd.Output(bounded(t))
	is.True(errors.Is(err, errBroken)) // a cut input is not passed off as a whole one
	is.Equal(string(out), "head")
}

func apart(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := sb.Command("sh", "-c", "echo out; echo err >&2; echo more")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	is.NoErr(cmd.Run(bounded(t)))
	is.Equal(stdout.String(), "out\nmore\n")
	is.Equal(stderr.String(), "err\n")
}

func combined(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	out, err := sb.Command("sh", "-c", "echo 1; echo 2 >&2; echo 3; echo 4 >&2; exit 5").CombinedOutput(bounded(t))
	is.Equal(exitOf(t, err).Code, 5)
	is.Equal(string(out), "1\n2\n3\n4\n") // in the order in which they were written
}

func discarded(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := sb.Command("sh", "-c", "echo err >&2; cat")
	cmd.Stdin = strings.NewReader(pattern(1<<20, 0)) // more than a pipe holds
	is.NoErr(cmd.Run(bounded(t)))                    // to write in vain is no error
}

func stderrKept(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	out, err := sb.Command("sh", "-c", "echo out; echo why >&2; exit 6").Output(bounded(t))
	e := exitOf(t, err)
	is.Equal(string(out), "out\n")
	is.Equal(e.Code, 6)
	is.Equal(string(e.Stderr), "why\n")
}

func writerFails(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := sb.Command("echo", "out")
	cmd.Stdout = brokenWriter{}
	is.True(errors.Is(cmd.Run(bounded(t)), errBroken))
	cmd = sb.Command("sh", "-c", "echo err >&2")
	cmd.Stderr = brokenWriter{}
	is.True(errors.Is(cmd.Run(bounded(t)), errBroken))
}

func writerFailsEarly(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := sb.Command("cat")
	cmd.Stdin, cmd.Stdout = endless{}, brokenWriter{}
	err := within(t, limit, func() error { return cmd.Run(context.Background()) })
	is.True(errors.Is(err, errBroken)) // the program ended, and the caller learns why
}

// manyAtOnce gives each of many commands a stream of its own, both ways.
func manyAtOnce(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx := bounded(t)
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		wg.Go(func() { errs[i] = ownStreams(ctx, sb, i) })
	}
	wg.Wait()
	is.NoErr(errors.Join(errs...))
}

func ownStreams(ctx context.Context, sb *sandbox.Sandbox, i int) error {
	in := pattern(64<<10+i, byte(i))
	cmd := sb.Command("sh", "-c", fmt.Sprintf("cat; echo %d >&2; exit %d", i, i+1))
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output(ctx)
	e, ok := errors.AsType[*sandbox.ExitError](err)
	switch {
	case !ok:
		return fmt.Errorf("command %d: %w", i, err)
	case e.Code != i+1 || string(e.Stderr) != fmt.Sprintf("%d\n", i):
		return fmt.Errorf("command %d has another's end: code %d, stderr %q", i, e.Code, e.Stderr)
	case string(out) != in:
		return fmt.Errorf("command %d has another's output", i)
	}
	return nil
}
