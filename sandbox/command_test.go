//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
)

func TestLimits(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	cmd := sb.Command("bash", "-c", `ulimit -Sn; ulimit -Hn; ulimit -n 65 2>/dev/null || echo fixed; id -u; grep CapEff /proc/self/status; echo "$OWN" "$0"; pwd`, "with space")
	cmd.Limits = []sandbox.Rlimit{{Resource: syscall.RLIMIT_NOFILE, Value: 64}, {Resource: syscall.RLIMIT_CORE, Value: 0}}
	cmd.Env, cmd.Dir = []string{"OWN=yes"}, "/tmp"
	out, err := cmd.CombinedOutput(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "64\n64\nfixed\n1000\nCapEff:\t0000000000000000\nyes with space\n/tmp\n")

	cmd = sb.Command("nosuch")
	cmd.Limits = []sandbox.Rlimit{{Resource: syscall.RLIMIT_CORE}}
	_, ok := errors.AsType[*sandbox.StartError](cmd.Run(t.Context()))
	is.True(ok)
	is.NoErr(sb.WriteFile(t.Context(), "noformat", strings.NewReader("no shebang"), 0o755))
	for _, limits := range [][]sandbox.Rlimit{nil, {{Resource: syscall.RLIMIT_CORE}}} {
		cmd = sb.Command("./noformat")
		cmd.Limits = limits
		err = cmd.Run(t.Context())
		e, ok := errors.AsType[*sandbox.StartError](err)
		is.True(ok)                                 // also what only execve finds
		is.True(errors.Is(e, syscall.ENOEXEC))      //
		is.True(strings.Contains(e.Path, "format")) //
	}
}

func TestUsers(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	cmd := sb.Command("sh", "-c", "id -u; id -g; id -G; touch /mnt/data/x 2>/dev/null || echo not mine; echo x > /dev/stdout; echo y > /dev/stderr")
	cmd.User = sandbox.User{UID: 2000, GID: 3000}
	out, err := cmd.CombinedOutput(t.Context())
	is.NoErr(err)
	is.Equal(string(out), "2000\n3000\n3000\nnot mine\nx\ny\n")
	for _, root := range []sandbox.User{{UID: 0, GID: 1000}, {UID: 1000, GID: 0}} {
		cmd := sb.Command("id")
		cmd.User = root
		err := cmd.Run(t.Context())
		is.True(errors.Is(err, sandbox.ErrInvalid))
		is.True(strings.Contains(err.Error(), "root")) // says why
	}
}

func TestLargeArguments(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	value := strings.Repeat("v=\n", 40_000)
	cmd := sb.Command("sh", "-c", `printf %s "$LARGE"`)
	cmd.Env = []string{"LARGE=" + value}
	out, err := cmd.Output(t.Context())
	is.NoErr(err)
	is.True(string(out) == value)
	for _, args := range [][]string{
		{strings.Repeat("x", 128<<10)},                            // more than the kernel takes in one
		slices.Repeat([]string{strings.Repeat("x", 100_000)}, 40), // more than the protocol takes
	} {
		err := sb.Command("echo", args...).Run(t.Context())
		is.True(errors.Is(err, sandbox.ErrInvalid))
		is.True(strings.Contains(err.Error(), "Stdin")) // names the remedy
	}
	is.NoErr(sb.Command("true", slices.Repeat([]string{strings.Repeat("x", 100_000)}, 15)...).Run(t.Context()))
}

// A noise is a reproducible stream that no compression helps with.
type noise struct {
	*rand.ChaCha8
	left int64
	sum  hash.Hash32
}

func newNoise(size int64) *noise {
	return &noise{ChaCha8: rand.NewChaCha8([32]byte{1}), left: size, sum: crc32.NewIEEE()}
}

func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), n.left)]
	n.ChaCha8.Read(p)
	n.sum.Write(p)
	n.left -= int64(len(p))
	return len(p), nil
}

func TestFileOfTwoGiB(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	const size = 2 << 30
	runtime.GC()
	grew := growth()
	src := newNoise(size)
	is.NoErr(sb.WriteFile(t.Context(), "large", src, 0o644))
	f, err := sb.FS(t.Context()).Open("large")
	is.NoErr(err)
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, f)
	is.NoErr(err)
	is.NoErr(f.Close())
	is.Equal(n, int64(size))
	is.Equal(sum.Sum32(), src.sum.Sum32())
	is.True(grew() < 32) // MiB: it went through, not into, this process
}

func TestFileServer(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	is.NoErr(sb.WriteFile(t.Context(), "Makefile", strings.NewReader("0123456789"), 0o644))
	server := httptest.NewServer(http.FileServerFS(sb.FS(t.Context())))
	defer server.Close()
	get := func(ranges string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/Makefile", nil)
		is.NoErr(err)
		if ranges != "" {
			req.Header.Set("Range", ranges)
		}
		resp, err := server.Client().Do(req)
		is.NoErr(err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		is.NoErr(err)
		return resp.StatusCode, string(b)
	}
	code, body := get("")
	is.Equal(code, http.StatusOK)
	is.Equal(body, "0123456789")
	code, body = get("bytes=3-5")
	is.Equal(code, http.StatusPartialContent)
	is.Equal(body, "345")

	f, err := sb.FS(t.Context()).Open("Makefile")
	is.NoErr(err)
	is.NoErr(sb.WriteFile(t.Context(), "Makefile", strings.NewReader("another"), 0o644))
	_, err = f.(io.Seeker).Seek(2, io.SeekStart)
	is.NoErr(err)
	_, err = io.ReadAll(f)
	is.True(err != nil) // not the rest of another file
	is.NoErr(f.Close())
}

func TestFileThatClaimsToBeHuge(t *testing.T) {
	is := is.New(t)
	sb := runtimetest.Lease(t, sandbox.Spec{})
	is.NoErr(sb.Command("truncate", "-s", "4T", "sparse").Run(t.Context()))
	ctx := runtimetest.Context(t, 200*time.Millisecond)
	_, err := fs.ReadFile(sb.FS(ctx), "sparse") // would be the end of this process, were its size believed
	is.True(errors.Is(err, context.DeadlineExceeded))
	f, err := sb.FS(t.Context()).Open("sparse")
	is.NoErr(err)
	b, err := io.ReadAll(io.LimitReader(f, 1000))
	is.NoErr(err)
	is.Equal(len(b), 1000)
	is.NoErr(f.Close()) // in the middle of it
}
