// Web starts an HTTP server inside a sandbox, which has no network, and talks
// to it from outside through DialContext.
//
//	CGO_ENABLED=0 go run ./examples/web
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
	_ "github.com/hanzoai/sandbox/sandbox/runsc"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	rt, err := sandbox.New(sandbox.Config{})
	if err != nil {
		return err
	}
	defer rt.Close()
	sb, err := rt.Lease(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}

	page := "<h1>served from inside</h1>\n"
	if err := sb.WriteFile(ctx, "index.html", strings.NewReader(page), 0o644); err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	server := make(chan error, 1)
	go func() {
		server <- sb.Command("python3", "-m", "http.server", "8000", "--bind", "127.0.0.1").Run(serving)
	}()
	if err := listening(ctx, sb, 8000, server); err != nil {
		return err
	}

	client := &http.Client{Transport: &http.Transport{DialContext: sb.DialContext}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://localhost:8000/")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	fmt.Print(resp.Status, "\n", string(body))
	return nil
}

// listening returns when something inside listens on the port.
func listening(ctx context.Context, sb *sandbox.Sandbox, port int, server <-chan error) error {
	for {
		ports, err := sb.Ports(ctx)
		if err != nil || slices.Contains(ports, port) {
			return err
		}
		select {
		case err := <-server:
			return fmt.Errorf("the server ended: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
