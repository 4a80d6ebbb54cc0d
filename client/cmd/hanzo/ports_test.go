//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// A host is a sandbox for the tool to work on.
type host struct {
	t  *testing.T
	id string
}

// newHost leases a sandbox on a server of the test's own.
func newHost(t *testing.T) *host {
	t.Helper()
	if _, err := osexec.LookPath("python3"); err != nil {
		runtimetest.Lacks(t, err)
	}
	url, known := newServer(t)
	t.Setenv("HANZO_BASE_URL", url)
	t.Setenv("HANZO_API_KEY", known.add("acme"))
	id, err := command("sandbox", "lease", "-o", "name").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &host{t, strings.TrimSpace(string(id))}
}

// A running is the tool at work, with what it says.
type running struct {
	*osexec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts the tool; it is ended with the test if it has not ended then.
func (h *host) start(args ...string) *running {
	h.t.Helper()
	r := &running{Cmd: command(args...)}
	in, err := r.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := r.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	r.in, r.out = in, bufio.NewReader(out)
	if err := r.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if r.ProcessState == nil {
			r.Process.Kill()
			r.Wait()
		}
	})
	return r
}

func (r *running) line(t *testing.T) string {
	t.Helper()
	line, err := r.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// interrupt ends it as a person does, and returns its exit code.
func (r *running) interrupt(t *testing.T) int {
	t.Helper()
	if err := r.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	r.Wait()
	return r.ProcessState.ExitCode()
}

// serve has a program inside serve, and returns when it does.
func (h *host) serve(program string) {
	h.t.Helper()
	r := h.start("sandbox", "exec", h.id, "--", "python3", "-c", program)
	if line := r.line(h.t); line != "ready" {
		h.t.Fatal(line)
	}
}

// pages serves pages that have the request's path in them.
const pages = `
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"page " + self.path.encode())
    def log_message(self, *args): pass
s = http.server.HTTPServer(("127.0.0.1", 8000), Page)
print("ready", flush=True)
s.serve_forever()`

func TestPortForward(t *testing.T) {
	is := is.New(t)
	h := newHost(t)
	h.serve(pages)
	r := h.start("sandbox", "port-forward", h.id, "0:8000", "0:9")
	var address, nothing string
	_, err := fmt.Sscanf(r.line(t), "%s -> "+h.id+":8000", &address)
	is.NoErr(err)
	_, err = fmt.Sscanf(r.line(t), "%s -> "+h.id+":9", &nothing)
	is.NoErr(err)
	is.True(strings.HasPrefix(address, "127.0.0.1:")) // nobody else comes in by it

	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 3 {
		is.Equal(get200(t, client, "http://"+address+"/a%20b"), "page /a%20b")
	}
	// What nothing listens on is closed, and the rest goes on.
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", nothing)
	is.NoErr(err)
	_, err = io.ReadAll(conn)
	is.NoErr(err)
	conn.Close()
	is.Equal(get200(t, client, "http://"+address+"/"), "page /")
	is.Equal(r.interrupt(t), 0)

	for _, wrong := range []string{"+80", "8000:0", "0", ":80", "80:", "65536", "1:2:3", "http"} {
		is.Equal(ends(t, h.start("sandbox", "port-forward", h.id, wrong).Cmd), exitUsage) // wrong
	}

	// It ends with the sandbox.
	r = h.start("sandbox", "port-forward", h.id, "0:8000")
	_, err = fmt.Sscanf(r.line(t), "%s -> "+h.id+":8000", &address)
	is.NoErr(err)
	is.NoErr(command("sandbox", "rm", h.id).Run())
	conn, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	is.NoErr(err)
	defer conn.Close()
	r.Wait()
	is.Equal(r.ProcessState.ExitCode(), exitFailed)
}

func get200(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %q, %v", resp.Status, body, err)
	}
	return string(body)
}

// TestPreviewOpens has a browser of the test's opened.
func TestPreviewOpens(t *testing.T) {
	is := is.New(t)
	h := newHost(t)
	h.serve(pages)
	bin := t.TempDir()
	opened := filepath.Join(bin, "opened")
	is.NoErr(os.WriteFile(filepath.Join(bin, "xdg-open"), []byte("#!/bin/sh\nprintf %s \"$1\" > "+opened), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	is.NoErr(command("sandbox", "preview", h.id, "8000", "--open").Run())
	address, err := os.ReadFile(opened)
	is.NoErr(err)

	jar, err := cookiejar.New(nil)
	is.NoErr(err)
	client := &http.Client{Jar: jar, Transport: &http.Transport{
		// As browsers have it, all names below localhost are this machine.
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
		},
	}}
	defer client.CloseIdleConnections()
	is.Equal(get200(t, client, string(address)), "page /")
}

// TestScreenSocket carries what serves a screen.
func TestScreenSocket(t *testing.T) {
	is := is.New(t)
	h := newHost(t)
	h.serve(`
import socket
s = socket.create_server(("127.0.0.1", 5900))
print("ready", flush=True)
c, _ = s.accept()
c.sendall(b"RFB 003.008\n")
c.sendall(b"got " + c.makefile("rb").readline())
c.close()`)
	ticket, err := command("sandbox", "screen", "ticket", h.id, "-o", "name").Output()
	is.NoErr(err)
	r := h.start("sandbox", "screen", "ws", h.id, "--ticket", strings.TrimSpace(string(ticket)))
	is.Equal(r.line(t), "RFB 003.008")
	io.WriteString(r.in, "RFB 003.007\n")
	is.Equal(r.line(t), "got RFB 003.007")
	r.in.Close()
	is.NoErr(r.Wait())
	// The ticket is used up, and the server says so.
	again := command("sandbox", "screen", "ws", h.id, "--ticket", strings.TrimSpace(string(ticket)))
	again.Stderr = nil
	_, err = again.Output()
	exit, ok := err.(*osexec.ExitError)
	is.True(ok)
	is.Equal(exit.ExitCode(), exitFailed)
	is.True(strings.Contains(string(exit.Stderr), "ticket"))
}
