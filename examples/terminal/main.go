// Terminal opens a shell in a sandbox on this terminal, or runs the lines that
// it is given on standard input.
//
//	CGO_ENABLED=0 go run ./examples/terminal
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	rt, err := sandbox.New(sandbox.Config{})
	if err != nil {
		return err
	}
	defer rt.Close()
	sb, err := rt.Lease(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}

	cmd := sb.Command("sh", "-i")
	cmd.Terminal = sandbox.NewTerminal(size())
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout

	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	go func() {
		for range resized {
			cmd.Terminal.Resize(size())
		}
	}()
	defer raw()()
	return cmd.Run(ctx)
}

// size is that of this terminal, or the usual one.
func size() (rows, cols uint16) {
	ws, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Row == 0 || ws.Col == 0 {
		return 24, 80
	}
	return ws.Row, ws.Col
}

// raw passes every key on to the sandbox, until the function that it returns
// is called.
func raw() (restore func()) {
	fd := int(os.Stdin.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {} // not a terminal
	}
	t := *old
	t.Iflag &^= unix.ICRNL | unix.IXON
	t.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG | unix.IEXTEN
	unix.IoctlSetTermios(fd, unix.TCSETS, &t)
	return func() { unix.IoctlSetTermios(fd, unix.TCSETS, old) }
}
