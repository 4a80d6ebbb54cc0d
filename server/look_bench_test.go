package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// lookDesk is a desk for benchmarks, and its sandbox without a server between.
func lookDesk(b *testing.B) (*desk, *sandbox.Sandbox) {
	rt := runtimetest.New(b, sandbox.Config{})
	d := newDesk(b, server.Config{Sandboxes: server.Runtime(rt), Limits: server.Limits{Rate: 1e9, Burst: 1e9}})
	return d, sandbox.Handle(rt, d.id)
}

// BenchmarkKeystroke types one character after the other to a program that
// says each again, by the socket and without a server, taking turns.
func BenchmarkKeystroke(b *testing.B) {
	d, sb := lookDesk(b)
	y := d.terminal("")
	y.quiet()
	y.typeLine("stty raw; echo be''gin; exec cat")
	y.until("begin\n")
	keys, typed := io.Pipe()
	shown, screen := io.Pipe()
	cmd := sb.Command("sh", "-c", "stty raw -echo; echo begin; exec cat")
	cmd.Terminal, cmd.Stdin, cmd.Stdout = sandbox.NewTerminal(24, 80), keys, screen
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run(ctx) }()
	defer func() { stop(); shown.Close(); typed.Close(); <-ended }()
	if _, err := io.ReadFull(shown, make([]byte, len("begin\n"))); err != nil {
		b.Fatal(err)
	}
	var socket, direct []time.Duration
	for b.Loop() {
		socket = append(socket, timed(b, func() error {
			y.send(websocket.MessageText, "k")
			y.until("k")
			return nil
		}))
		direct = append(direct, timed(b, func() error {
			if _, err := io.WriteString(typed, "k"); err != nil {
				return err
			}
			_, err := io.ReadFull(shown, make([]byte, 1))
			return err
		}))
	}
	b.ReportMetric(median(socket), "socket-ms")
	b.ReportMetric(median(direct), "direct-ms")
}

// BenchmarkTerminalOutput has a program fill a terminal, by the socket and
// without a server, taking turns.
func BenchmarkTerminalOutput(b *testing.B) {
	const size = 32 << 20
	d, sb := lookDesk(b)
	y := d.terminal("")
	y.quiet()
	var socket, direct []time.Duration
	for b.Loop() {
		socket = append(socket, timed(b, func() error {
			y.typeLine(fmt.Sprintf("head -c %d /dev/zero", size))
			for n := len(y.seen); n < size; {
				_, p, err := y.ws.Read(b.Context())
				if err != nil {
					return err
				}
				n += len(p)
			}
			y.seen = nil
			return nil
		}))
		direct = append(direct, timed(b, func() error {
			var n counter
			cmd := sb.Command("head", "-c", fmt.Sprint(size), "/dev/zero")
			cmd.Terminal, cmd.Stdout = sandbox.NewTerminal(24, 80), &n
			err := cmd.Run(b.Context())
			if n != size && err == nil {
				err = fmt.Errorf("%d bytes", n)
			}
			return err
		}))
	}
	b.ReportMetric(size/1e6/median(socket)*1e3, "socket-MB/s")
	b.ReportMetric(median(direct)/median(socket), "ratio")
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// BenchmarkPreview has 50 clients ask an application by a preview, and by a
// plain proxy that has the sandbox's DialContext, taking turns.
func BenchmarkPreview(b *testing.B) {
	d, sb := lookDesk(b)
	serveInside(b, sb, 8000)
	browser := d.browser()
	browser.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	link := d.link(8000)
	resp, err := browser.Get(link)
	if err != nil || resp.StatusCode != http.StatusSeeOther {
		b.Fatal(err, resp.Status)
	}
	resp.Body.Close()
	target, err := url.Parse("http://inside")
	if err != nil {
		b.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	inside := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return sb.DialContext(ctx, "tcp", "localhost:8000")
	}}
	defer inside.CloseIdleConnections()
	proxy.Transport = inside
	plain := httptest.NewServer(proxy)
	defer plain.Close()
	direct := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer direct.CloseIdleConnections()
	const clients, each = 50, 20
	all := func(c *http.Client, address string) time.Duration {
		return timed(b, func() error {
			var wg sync.WaitGroup
			errs := make(chan error, clients)
			for range clients {
				wg.Go(func() {
					for range each {
						if err := take(c, address); err != nil {
							errs <- err
							return
						}
					}
				})
			}
			wg.Wait()
			close(errs)
			return <-errs
		})
	}
	var preview, baseline []time.Duration
	for b.Loop() {
		preview = append(preview, all(browser, strings.Split(link, "?")[0]+"large?10000"))
		baseline = append(baseline, all(direct, plain.URL+"/large?10000"))
	}
	b.ReportMetric(clients*each*1e3/median(preview), "requests/s")
	b.ReportMetric(median(baseline)/median(preview), "ratio")
}

func take(c *http.Client, address string) error {
	resp, err := c.Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil || body.Len() != 10000 {
		return fmt.Errorf("%s, %d bytes: %w", resp.Status, body.Len(), err)
	}
	return nil
}
