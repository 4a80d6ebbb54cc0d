package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

func bench(b *testing.B, args ...string) {
	b.Helper()
	for b.Loop() {
		if err := command(args...).Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExec is the whole process. The test's own program is larger than
// the tool, and starts later: HANZO names another one.
func BenchmarkExec(b *testing.B) {
	id := benchSandbox(b)
	bench(b, "sandbox", "exec", id, "--", "true")
}

// BenchmarkCopyFile copies 1 GiB.
func BenchmarkCopyFile(b *testing.B) {
	const size = 1 << 30
	id := benchSandbox(b)
	name := filepath.Join(b.TempDir(), "large")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		b.Fatal(err)
	}
	f.Close()
	b.Run("cp", func(b *testing.B) {
		b.SetBytes(size)
		bench(b, "sandbox", "cp", name, id+":large")
	})
	b.Run("http", func(b *testing.B) {
		b.SetBytes(size)
		bench(b, "sandbox", "fs", "create", id, "large", "--file", name)
	})
	b.Run("back", func(b *testing.B) {
		b.SetBytes(size)
		bench(b, "sandbox", "cp", id+":large", name+".back")
	})
}

// BenchmarkCopyFolder copies 10,000 small files.
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
	back := b.TempDir()
	b.Run("there", func(b *testing.B) { bench(b, "sandbox", "cp", dir, id+":tree") })
	b.Run("back", func(b *testing.B) { bench(b, "sandbox", "cp", id+":tree", back) })
}
