package server_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// published serves the published operations alone, as another server would:
// what this one has beyond them is not there.
func published(t *testing.T) *client.Remote {
	keys := keyring{}
	h, err := server.New(server.Config{Sandboxes: newMemory(t).For, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	beyond := []string{"verbatim", "stat", "offset", "mode", "mkdir", "parents", "upload"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fsRoute := strings.HasSuffix(r.URL.Path, "/fs")
		if strings.HasSuffix(r.URL.Path, "/ws") || strings.Contains(r.URL.Path, "/dial/") || strings.HasSuffix(r.URL.Path, "/renew") ||
			fsRoute && r.Method != http.MethodGet && r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		query := r.URL.Query()
		for _, name := range beyond {
			query.Del(name)
		}
		r.URL.RawQuery = query.Encode()
		h.ServeHTTP(&without{w}, r)
	}))
	t.Cleanup(s.Close)
	remote, err := client.New(s.URL, client.Config{Key: keys.add("acme", "ada", false)})
	if err != nil {
		t.Fatal(err)
	}
	return remote
}

// without drops a header that other servers do not send.
type without struct{ http.ResponseWriter }

func (w *without) WriteHeader(status int) {
	w.Header().Del("Sandbox-Stat")
	w.ResponseWriter.WriteHeader(status)
}

func (w *without) Write(p []byte) (int, error) {
	w.Header().Del("Sandbox-Stat")
	return w.ResponseWriter.Write(p)
}

func (w *without) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestPublishedAlone is the part of a Driver that the published operations
// suffice for; the rest has to be missing in so many words.
func TestPublishedAlone(t *testing.T) {
	is := is.New(t)
	ctx := t.Context()
	r := published(t)
	sb, err := r.Lease(ctx, sandbox.Spec{})
	is.NoErr(err)

	cmd := sb.Command("sh", "-c", "cat; echo err >&2; exit 3")
	cmd.Stdin = strings.NewReader("in")
	out, err := cmd.Output(ctx)
	e, ok := errors.AsType[*sandbox.ExitError](err)
	is.True(ok)
	is.Equal(e.Code, 3)
	is.Equal(string(out), "in")
	is.Equal(string(e.Stderr), "err\n")

	is.NoErr(sb.WriteFile(ctx, "dir/file", strings.NewReader("content"), 0o644))
	b, err := fs.ReadFile(sb.FS(ctx), "dir/file")
	is.NoErr(err)
	is.Equal(string(b), "content")
	entries, err := fs.ReadDir(sb.FS(ctx), ".")
	if errors.Is(err, errors.ErrUnsupported) {
		f, err := sb.FS(ctx).Open(".")
		is.NoErr(err)
		entries, err = f.(fs.ReadDirFile).ReadDir(-1)
		is.NoErr(err)
	}
	is.Equal(len(entries), 1)
	is.Equal(entries[0].Name(), "dir")
	is.True(entries[0].IsDir())
	_, err = fs.ReadFile(sb.FS(ctx), "nosuch")
	is.True(errors.Is(err, fs.ErrNotExist))

	for name, missing := range map[string]error{
		"environment": func() error {
			cmd := sb.Command("true")
			cmd.Env = []string{"A=b"}
			return cmd.Run(ctx)
		}(),
		"bytes":    sb.Command("echo", "\xff").Run(ctx),
		"removal":  sb.Remove(ctx, "dir/file"),
		"ports":    func() error { _, err := sb.DialContext(ctx, "tcp", "localhost:80"); return err }(),
		"renewal":  func() error { _, err := sb.Renew(ctx, 0); return err }(),
		"describe": func() error { _, err := fs.Lstat(sb.FS(ctx), "dir/file"); return err }(),
	} {
		if !errors.Is(missing, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, missing)
		}
	}
	is.NoErr(sb.End(ctx))
	is.True(errors.Is(sb.End(ctx), sandbox.ErrEnded))
}

// TestHostileServer has a client meet answers that no honest server gives.
func TestHostileServer(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://other.example/", http.StatusFound)
		},
		"page":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"no id": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"id":"../../x"}`) },
		"long problem": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(slices.Repeat([]byte("x"), 1<<20))
		},
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := httptest.NewServer(answer)
			defer s.Close()
			r, err := client.New(s.URL, client.Config{Key: "sk-secret"})
			is.NoErr(err)
			_, err = r.Lease(t.Context(), sandbox.Spec{})
			is.True(err != nil)
			is.True(len(err.Error()) < 500)
			is.True(!strings.Contains(err.Error(), "sk-secret"))
		})
	}
	is := is.New(t)
	for _, base := range []string{"", "host", "ftp://host", "http://", "http://user:pw@host", "http://host?x=1"} {
		_, err := client.New(base, client.Config{})
		is.True(err != nil)
	}
}
