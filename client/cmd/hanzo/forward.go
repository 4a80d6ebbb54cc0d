package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/hanzoai/sandbox/sandbox"
)

type previewCmd struct {
	ID   string `arg:"" json:"-" help:"The sandbox."`
	Port int64  `arg:"" json:"port" help:"The port."`
	Open bool   `json:"-" help:"Open it in the browser."`
}

// Help is what --help adds.
func (c *previewCmd) Help() string {
	return `The link is good once and for half a minute; what it opens stays open for longer.

Examples:
  hanzo sandbox preview ID 8000 --open
  hanzo sandbox preview ID 8000 -o json`
}

// Run mints a link.
func (c *previewCmd) Run(a *app) error {
	q, err := post("v1", "sandbox", c.ID, "preview").value(c)
	if err != nil {
		return err
	}
	if !c.Open {
		return a.show(q)
	}
	var grant struct{ URL string }
	if err := a.ask(q, &grant); err != nil {
		return err
	}
	if !strings.HasPrefix(grant.URL, "http://") && !strings.HasPrefix(grant.URL, "https://") {
		return fmt.Errorf("the server's answer has no address of a page")
	}
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	if err := osexec.CommandContext(a.ctx, opener, grant.URL).Run(); err != nil {
		fmt.Println(printable(grant.URL))
		return fmt.Errorf("no browser could be opened: %w", err)
	}
	return nil
}

type forwardCmd struct {
	ID    string   `arg:"" help:"The sandbox."`
	Ports []string `arg:"" name:"port" help:"PORT, or LOCAL:PORT. A LOCAL of 0 is any that is free."`
}

// Help is what --help adds.
func (c *forwardCmd) Help() string {
	return `Only programs of this machine can connect. It ends when it is interrupted.

Examples:
  hanzo sandbox port-forward ID 8000
  hanzo sandbox port-forward ID 5900 8080:80 0:5432`
}

// Run listens until it is interrupted.
func (c *forwardCmd) Run(a *app) error {
	_, sb, err := a.sandbox(c.ID)
	if err != nil {
		return err
	}
	if _, err := sb.Info(a.ctx); err != nil {
		return a.ended(err)
	}
	ctx, end := context.WithCancelCause(a.ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end(nil)
	for _, arg := range c.Ports {
		local, port, err := portPair(arg)
		if err != nil {
			return err
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(local)))
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { l.Close() })
		fmt.Printf("%s -> %s:%d\n", l.Addr(), c.ID, port)
		all.Go(func() { carry(ctx, end, l, sb, port) })
	}
	<-ctx.Done()
	if a.ctx.Err() != nil {
		return nil // as it was told to
	}
	return a.explain(context.Cause(ctx))
}

// portPair reads PORT or LOCAL:PORT.
func portPair(arg string) (local, port int, err error) {
	first, second, two := strings.Cut(arg, ":")
	if !two {
		second = first
	}
	l, err1 := strconv.ParseUint(first, 10, 16)
	p, err2 := strconv.ParseUint(second, 10, 16)
	if err1 != nil || err2 != nil || p == 0 {
		return 0, 0, usage("%q is no port: want PORT or LOCAL:PORT", arg)
	}
	return int(l), int(p), nil
}

// carry carries connections until ctx ends, which it brings about when the
// sandbox has gone.
func carry(ctx context.Context, end context.CancelCauseFunc, l net.Listener, sb *sandbox.Sandbox, port int) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			end(err) // with too many files open, for one
			return
		}
		all.Go(func() {
			defer conn.Close()
			there, err := sb.DialContext(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(port)))
			switch {
			case errors.Is(err, sandbox.ErrNotFound), errors.Is(err, sandbox.ErrEnded):
				end(err)
				return
			case err != nil && ctx.Err() == nil:
				fmt.Fprintf(os.Stderr, "hanzo: port %d: %s\n", port, printable(err.Error()))
				return
			case err != nil:
				return
			}
			defer there.Close()
			defer context.AfterFunc(ctx, func() {
				conn.Close()
				there.Close()
			})()
			join(conn, there)
		})
	}
}

// join carries bytes both ways, and the ends of both.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			io.Copy(pair[0], pair[1]) //nolint:errcheck // the other end is told by the close
			if half, ok := pair[0].(interface{ CloseWrite() error }); ok {
				half.CloseWrite() //nolint:errcheck // it has gone
			}
		})
	}
	both.Wait()
}
