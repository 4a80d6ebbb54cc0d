//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

// processes counts the processes inside whose command line holds mark. The
// pattern does not match itself.
func processes(t *testing.T, sb *sandbox.Sandbox, mark string) int {
	t.Helper()
	cmd := sb.Command("sh", "-c", `grep -las -- "$0" /proc/[0-9]*/cmdline; :`, "["+mark[:1]+"]"+mark[1:])
	out, err := cmd.Output(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(out), "\n")
}

// hideouts are ways for a process to get away from who started it. Each starts
// a sleeper with an empty environment, says that it has, and goes on for ever.
var hideouts = map[string]string{
	"child":         `sleep 7331 & echo up; wait`,
	"new session":   `setsid env -i sleep 7331 & echo up; wait`,
	"double fork":   `(setsid env -i sh -c 'sleep 7331 & sleep 7331' >/dev/null 2>&1 &) ; echo up; sleep 7331`,
	"deaf":          `trap '' TERM INT HUP; (trap '' TERM INT HUP; setsid sleep 7331 &); echo up; while :; do sleep 7331; done`,
	"stopped":       `sleep 7331 & kill -STOP $!; echo up; wait`,
	"silent leader": `sleep 7331 & exec sleep 7331 1>&- & echo up; wait`,
}

func TestCancelKillsEverything(t *testing.T) {
	sb := runtimetest.Lease(t, sandbox.Spec{})
	for name, script := range hideouts {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			ctx, cancel := context.WithCancel(t.Context())
			up, says := io.Pipe()
			defer up.Close()
			cmd := sb.Command("sh", "-c", script)
			cmd.Stdout = says
			end := make(chan error, 1)
			go func() { end <- cmd.Run(ctx) }()
			_, err := io.ReadFull(up, make([]byte, 3))
			is.NoErr(err)
			cancel()
			start := time.Now()
			err = <-end
			is.True(time.Since(start) < time.Second)        // returns within a second
			is.True(errors.Is(err, context.Canceled))       // and says why
			e, ok := errors.AsType[*sandbox.ExitError](err) //
			is.True(ok && e.Cause == sandbox.CauseKilled)   // the cause is told
			is.Equal(processes(t, sb, "7331"), 0)           // nothing is left
		})
	}
}

func TestTimeoutKillsForkBomb(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	cmd := sb.Command("bash", "-c", `echo started; bomb() { setsid bash -c "$1" bomb "$1" & sleep 0.02; bomb "$1"; }; f='trap "" TERM; : fork7332; setsid bash -c "$0" "$0" & setsid bash -c "$0" "$0" & wait'; bash -c "$f" "$f" & wait`)
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Timeout = 1500 * time.Millisecond
	start := time.Now()
	err := cmd.Run(t.Context())
	is.True(time.Since(start) < cmd.Timeout+time.Second)
	is.True(errors.Is(err, sandbox.ErrTimeout))
	is.Equal(out.String(), "started\n") // what it had written is there
	is.Equal(processes(t, sb, "fork7332"), 0)
	is.NoErr(sb.Command("true").Run(t.Context())) // the sandbox goes on
}

func TestForkBombIsBounded(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	cmd := sb.Command("sh", "-c", `: fork7335; mkfifo wait; i=0; while [ $i -lt 600 ]; do (: <wait) & i=$((i+1)); done; echo over`)
	_, err := cmd.Output(t.Context())
	e, ok := errors.AsType[*sandbox.ExitError](err)
	is.True(ok)                                                // the shell gives up
	is.True(strings.Contains(string(e.Stderr), "Cannot fork")) // by EAGAIN
	n := processes(t, sb, "fork7335")
	is.True(n > 400 && n <= 512)
}

func TestBackgroundChildDoesNotHoldTheCall(t *testing.T) {
	sb := runtimetest.Lease(t, sandbox.Spec{})
	for name, script := range map[string]string{
		"ampersand":   `sleep 7333 & echo ok`,
		"nohup":       `nohup sleep 7333 & echo ok`,
		"setsid":      `setsid sleep 7333 & echo ok`,
		"double fork": `(sleep 7333 &); echo ok`,
		"chatty":      `yes 7333 >&2 & echo ok`,
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			cmd := sb.Command("sh", "-c", script)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			start := time.Now()
			is.NoErr(cmd.Run(t.Context()))
			is.True(time.Since(start) < time.Second)
			is.Equal(out.String(), "ok\n")
			is.True(processes(t, sb, "7333") > 0) // the job lives on
		})
	}
}

func TestOutputOfTheProgramIsWhole(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	// A slow reader, a child that goes on talking, and an end right after a
	// burst: nothing that the program itself wrote may be missing.
	cmd := sb.Command("sh", "-c", `(while :; do echo noise >&2; done) & head -c 3000000 /dev/zero | tr '\0' x; echo end`)
	var out slowBuffer
	cmd.Stdout = &out
	is.NoErr(cmd.Run(t.Context()))
	is.Equal(out.Len(), 3000004)
	is.True(strings.HasSuffix(out.String(), "xend\n"))
}

// slowBuffer lets a window fill before it takes anything.
type slowBuffer struct {
	bytes.Buffer
	waited bool
}

func (b *slowBuffer) Write(p []byte) (int, error) {
	if !b.waited {
		b.waited = true
		<-time.After(300 * time.Millisecond)
	}
	return b.Buffer.Write(p)
}
