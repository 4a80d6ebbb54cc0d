//go:build linux

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanzoai/sandbox/internal/runtimetest"
)

// benchSandbox leases a sandbox on a server of the benchmark's own.
func benchSandbox(b *testing.B) string {
	url, known := newServer(b)
	b.Setenv("HANZO_BASE_URL", url)
	b.Setenv("HANZO_API_KEY", known.add("acme"))
	id, err := command("sandbox", "lease", "-o", "name").Output()
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(id))
}

// do returns what runs the tool.
func do(b *testing.B, args ...string) func() {
	return func() {
		if err := command(args...).Run(); err != nil {
			b.Fatal(args, ": ", err)
		}
	}
}

// BenchmarkExec is the whole process, beside one that does nothing at all. The
// test's own program is larger than the tool, and starts later: HANZO names
// another one.
func BenchmarkExec(b *testing.B) {
	id := benchSandbox(b)
	runtimetest.Turns(b, []string{"exec", "version"}, do(b, "sandbox", "exec", id, "--", "true"), do(b, "--version"))
}

// BenchmarkCopyFile copies 1 GiB there and back, against the operations that
// send and receive a file as it is.
func BenchmarkCopyFile(b *testing.B) {
	const size = 1 << 30
	id := benchSandbox(b)
	name := filepath.Join(b.TempDir(), "large")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	// Of zeros a copy would be a hole.
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{}), size); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	// What one has written is not for the next to wait for, and each write comes
	// after a read: they are slower then.
	m := runtimetest.TurnsAfter(b, syscall.Sync, []string{"cp", "cp-back", "http", "http-back"},
		do(b, "sandbox", "cp", name, id+":large"),
		do(b, "sandbox", "cp", id+":large", name+".back"),
		do(b, "sandbox", "fs", "create", id, "large", "--file", name),
		func() {
			back, err := os.Create(name + ".back")
			if err != nil {
				b.Fatal(err)
			}
			defer back.Close()
			cmd := command("sandbox", "fs", "get", id, "large")
			cmd.Stdout = back
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		})
	b.ReportMetric(m[2]/m[0], "of-http")
	b.ReportMetric(m[3]/m[1], "back-of-http")
}

// BenchmarkCopyFolder copies 10,000 small files there and back.
func BenchmarkCopyFolder(b *testing.B) {
	id := benchSandbox(b)
	dir := b.TempDir()
	for i := range 10_000 {
		sub := filepath.Join(dir, fmt.Sprint(i/100))
		if i%100 == 0 {
			if err := os.Mkdir(sub, 0o700); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), []byte("small"), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	runtimetest.Turns(b, []string{"there", "back"},
		do(b, "sandbox", "cp", dir, id+":tree"), do(b, "sandbox", "cp", id+":tree", b.TempDir()))
}
