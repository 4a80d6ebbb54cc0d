package sandboxtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

// cutCases are about programs that do not end by themselves.
var cutCases = cases{
	{"timeout", timeout},
	{"deadline of the context", deadline},
	{"end of the context", canceled},
	{"context that has ended", canceledBefore},
	{"context ends under a writer that blocks", canceledBlocked},
	{"own signal", ownSignal},
	{"signal of the caller", sentSignal},
	{"child in the background", background},
}

// soon is how late a call may return after what ends it.
const soon = time.Second

// sleeper says that it is up and does nothing more.
func sleeper(sb *sandbox.Sandbox) *sandbox.Cmd {
	return sb.Command("sh", "-c", "echo up; sleep 60")
}

func timeout(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	cmd := sleeper(sb)
	cmd.Timeout = 500 * time.Millisecond
	began := time.Now()
	r := start(context.Background(), t, cmd)
	err := await(t, cmd.Timeout+soon-time.Since(began), r.done)
	is.True(time.Since(began) >= cmd.Timeout) // not before its time
	is.True(errors.Is(err, sandbox.ErrTimeout))
	is.Equal(exitOf(t, err).Cause, sandbox.CauseTimeout)
	is.Equal(r.String(), "up\n") // what it had written is there
}

func deadline(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	r := start(ctx, t, sleeper(sb))
	<-ctx.Done()
	err := await(t, soon, r.done)
	is.True(errors.Is(err, context.DeadlineExceeded))
	is.Equal(exitOf(t, err).Cause, sandbox.CauseTimeout)
}

func canceled(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := start(ctx, t, sleeper(sb))
	cancel()
	err := await(t, soon, r.done)
	is.True(errors.Is(err, context.Canceled))
	is.True(!errors.Is(err, sandbox.ErrTimeout)) // the caller's wish is no limit
	is.Equal(exitOf(t, err).Cause, sandbox.CauseKilled)
	is.Equal(r.String(), "up\n")
}

func canceledBefore(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := within(t, soon, func() error { return sb.Command("tee", "canceled-before").Run(ctx) })
	is.True(errors.Is(err, context.Canceled))
}

// canceledBlocked has a writer that takes the first bytes and then no more.
func canceledBlocked(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	defer r.Close()
	cmd := sb.Command("cat")
	cmd.Stdin, cmd.Stdout = endless{}, w
	done := make(chan error, 1)
	go func() { done <- cmd.Run(ctx) }()
	_, err := io.ReadFull(r, make([]byte, 1))
	is.NoErr(err)
	cancel()
	err = await(t, soon, done)
	is.True(errors.Is(err, context.Canceled))
}

func ownSignal(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	for name, sig := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL} {
		e := exitOf(t, sb.Command("sh", "-c", "kill -"+name+" $$; echo survived").Run(bounded(t)))
		is.Equal(e.Cause, sandbox.CauseSignal)
		is.Equal(e.Signal, sig)
		is.Equal(e.Code, 128+int(sig))
		is.NoErr(e.Err) // nobody here cut it short
	}
}

// sentSignal has a program of one process: between its fork and its wait a
// shell can miss a signal on any Linux.
func sentSignal(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	stdin, w := io.Pipe()
	defer w.Close()
	signals := make(chan syscall.Signal, 1)
	cmd := sb.Command("cat")
	cmd.Stdin, cmd.Signals = io.MultiReader(strings.NewReader("up"), stdin), signals
	r := start(bounded(t), t, cmd)
	signals <- syscall.SIGINT
	e := exitOf(t, await(t, limit, r.done))
	is.Equal(e.Cause, sandbox.CauseSignal)
	is.Equal(e.Signal, syscall.SIGINT)
}

func background(t *testing.T, sb *sandbox.Sandbox) {
	is := is.New(t)
	var out string
	err := within(t, soon, func() error {
		b, err := sb.Command("sh", "-c", "sleep 60 & echo ok").Output(context.Background())
		out = string(b)
		return err
	})
	is.NoErr(err)
	is.Equal(out, "ok\n")
}
