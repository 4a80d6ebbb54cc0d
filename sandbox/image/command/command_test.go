package command_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/matryer/is"
	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox/image/command"
)

// A line runs command lines on one store.
type line struct {
	dir            string
	stdout, stderr bytes.Buffer
}

func newLine(t testing.TB) *line {
	t.Helper()
	if os.Geteuid() != 0 {
		runtimetest.Lacks(t, "unpacking takes root")
	}
	return &line{dir: filepath.Join(t.TempDir(), "store")}
}

// run runs a command line and returns its exit code.
func (l *line) run(ctx context.Context, args ...string) int {
	l.stdout.Reset()
	l.stderr.Reset()
	c := &command.Command{Name: "sandbox-image", Dir: l.dir, Stdout: &l.stdout, Stderr: &l.stderr}
	return c.Run(ctx, args)
}

// newImage is an image of one layer of random bytes.
func newImage(t testing.TB) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := random.Layer(1<<20, types.DockerLayer)
	if err == nil {
		img, err = mutate.AppendLayers(img, l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func saved(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(newImage(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestVerbs(t *testing.T) {
	is := is.New(t)
	l := newLine(t)
	ctx := t.Context()
	out := filepath.Join(t.TempDir(), "out")
	is.Equal(l.run(ctx, "import", saved(t), "tools"), 0)
	is.True(strings.HasPrefix(l.stdout.String(), "import tools: sha256:"))
	is.True(strings.Contains(l.stderr.String(), "1 of 1 layers")) // lines, as it is no terminal
	is.True(!strings.Contains(l.stderr.String(), "\r"))
	is.Equal(l.run(ctx, "list"), 0)
	is.True(strings.Contains(l.stdout.String(), "\ntools "))
	is.Equal(l.run(ctx, "list", "-json"), 0)
	is.True(strings.Contains(l.stdout.String(), `"tools"`))
	is.Equal(l.run(ctx, "export", "tools", out+".tar"), 0)
	is.Equal(l.run(ctx, "export", "tools", out), 0)
	is.Equal(l.run(ctx, "rm", "tools"), 0)
	is.Equal(l.run(ctx, "gc"), 0)
	is.True(strings.HasPrefix(l.stdout.String(), "removed 1 images, 1 layers, 3 blobs"))
	is.Equal(l.run(ctx, "import", out+".tar", "again"), 0)
	is.Equal(l.run(ctx, "import", "-q", out, "same"), 0)
	is.Equal(l.stderr.Len(), 0)
	is.Equal(l.run(ctx, "list"), 0)
	is.Equal(strings.Count(l.stdout.String(), "sha256:"), 2)
}

func TestPull(t *testing.T) {
	is := is.New(t)
	l := newLine(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	text := strings.TrimPrefix(server.URL, "http://") + "/org/tools:1"
	ref, err := name.ParseReference(text)
	is.NoErr(err)
	is.NoErr(remote.Write(ref, newImage(t)))
	is.Equal(l.run(t.Context(), "pull", text, "-http", "-anonymous"), 0)
	is.Equal(l.run(t.Context(), "list"), 0)
	is.True(strings.Contains(l.stdout.String(), text))
	is.Equal(l.run(t.Context(), "pull", "-http", text+"none"), 1)
	is.True(strings.Contains(l.stderr.String(), "tools:1none")) // says which
}

func TestMistakes(t *testing.T) {
	is := is.New(t)
	l := newLine(t)
	for _, args := range [][]string{
		{}, {"frobnicate"}, {"-unknown"}, {"pull"}, {"pull", "a", "b"}, {"import", "x"}, {"export", "x"}, {"rm"}, {"list", "x"}, {"gc", "-max", "much"},
	} {
		is.Equal(l.run(t.Context(), args...), 2)
		is.True(l.stderr.Len() > 0)
		is.Equal(l.stdout.Len(), 0)
	}
	for _, args := range [][]string{{"rm", "none"}, {"export", "none", "x"}, {"pull", "tools"}, {"import", "/nonexistent", "x"}, {"build", "none"}} {
		is.Equal(l.run(t.Context(), args...), 1)
		is.True(strings.HasPrefix(l.stderr.String(), "sandbox-image: "))
	}
	is.Equal(l.run(t.Context(), "-h"), 0)
	is.True(strings.Contains(l.stderr.String(), "build RECIPE"))
	is.Equal(l.run(t.Context(), "build"), 0)
	is.True(strings.Contains(l.stdout.String(), "thirteen languages"))
}

// On a terminal there is a bar, and nothing of it at the end.
func TestBar(t *testing.T) {
	is := is.New(t)
	l := newLine(t)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	is.NoErr(err)
	defer terminal.Close()
	is.NoErr(unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	is.NoErr(err)
	screen, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	is.NoErr(err)
	is.NoErr(unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	c := &command.Command{Name: "sandbox-image", Dir: l.dir, Stdout: io.Discard, Stderr: screen}
	is.Equal(c.Run(t.Context(), []string{"import", saved(t), "tools"}), 0)
	_, err = screen.WriteString("end\n")
	is.NoErr(err)
	is.NoErr(terminal.SetReadDeadline(time.Now().Add(10 * time.Second)))
	var shown []byte
	for b := make([]byte, 4096); !bytes.Contains(shown, []byte("end")); {
		n, err := terminal.Read(b)
		is.NoErr(err)
		shown = append(shown, b[:n]...)
	}
	is.NoErr(screen.Close())
	is.True(bytes.Contains(shown, []byte("import tools [")))
	is.True(bytes.Contains(shown, []byte("100%")))
	is.True(bytes.HasSuffix(bytes.TrimSpace(shown), []byte("\r\x1b[Kend")))
	for part := range bytes.SplitSeq(shown, []byte("\r")) {
		is.True(len(part) < 100+len("\x1b[K")) // one line
	}
}

func TestInterrupted(t *testing.T) {
	is := is.New(t)
	l := newLine(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is.Equal(l.run(ctx, "import", saved(t), "tools"), 1)
	is.True(strings.Contains(l.stderr.String(), "canceled"))
}
