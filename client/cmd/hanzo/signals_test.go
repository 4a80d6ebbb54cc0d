//go:build linux

package main

import (
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// await waits inside until there is no sleep any more.
const await = `for i in $(seq 100); do pgrep -x sleep >/dev/null || exit 0; read -t 0.1 x <> <(:); done; exit 1`

// TestSignals sends what the tool is sent on to the program.
func TestSignals(t *testing.T) {
	h := newHost(t)
	for name, test := range map[string]struct {
		program string
		signals []syscall.Signal
		code    int // -1 when it is killed
	}{
		"a signal is the program's":      {"trap 'exit 9' TERM; echo ready; sleep 1000 & wait", []syscall.Signal{syscall.SIGTERM}, 9},
		"and so is one of its own":       {"trap 'exit 8' USR1; echo ready; sleep 1000 & wait", []syscall.Signal{syscall.SIGUSR1}, 8},
		"it ends as the program does":    {"echo ready; sleep 1000", []syscall.Signal{syscall.SIGTERM}, 143},
		"another one ends it":            {"trap '' INT TERM; echo ready; sleep 1000", []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, 130},
		"a tool that is killed ends all": {"trap '' INT TERM; setsid sleep 1000 & echo ready; sleep 1000", []syscall.Signal{syscall.SIGKILL}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			r := h.start("sandbox", "exec", h.id, "--", "bash", "-c", test.program)
			is.Equal(r.line(t), "ready")
			for _, s := range test.signals {
				is.NoErr(r.Process.Signal(s))
			}
			r.Wait()
			is.Equal(r.ProcessState.ExitCode(), test.code)
			if test.code != 9 && test.code != 8 { // whose sleep is left in the background
				is.NoErr(command("sandbox", "exec", h.id, "--", "bash", "-c", await).Run())
			}
			is.NoErr(command("sandbox", "stop", "--id", h.id).Run())
			is.NoErr(command("sandbox", "exec", h.id, "--", "bash", "-c", "pkill -x sleep; "+await).Run())
		})
	}
}
