//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// outcome runs the tool against a server, and returns what it says.
func outcome(t *testing.T, url string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "HANZO_BASE_URL="+url, "HANZO_API_KEY=sk-secret")
	cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestHostileServer has servers answer what no server of ours does.
func TestHostileServer(t *testing.T) {
	list, exec := []string{"sandbox", "list", "-o", "table"}, []string{"sandbox", "exec", "-n", "x", "--", "true"}
	for name, test := range map[string]struct {
		status int
		body   string
		args   []string
		code   int
		want   string // in what is said
	}{
		"escapes in an error":        {400, `{"code":"invalid","detail":"\u001b]0;x\u0007\u202egone"}`, list, 1, "hanzo: \uFFFD]0;x\uFFFD\uFFFDgone\n"},
		"and of a command":           {400, `{"code":"invalid","detail":"\u001b]0;x\u0007gone"}`, exec, 125, "hanzo: \uFFFD]0;x\uFFFDgone\n"},
		"escapes in names":           {200, `{"\u001b[31mkey":"\u001b[2Jv","b":"a\nb"}`, list, 0, "\uFFFD[31mkey  \uFFFD[2Jv\nb         a\uFFFDb\n"},
		"a text":                     {200, `"\u001b[2Jtext"`, list, 0, "\uFFFD[2Jtext\n"},
		"more after the end":         {200, `{"a":1} more`, list, 1, "the server's answer: invalid character 'm'"},
		"deeper than there is room":  {200, strings.Repeat("[", 20_000_000), list, 1, "exceeded max depth"},
		"another code than there is": {200, `{"exitCode":256}`, []string{"sandbox", "run", "--id", "x", "--command", "x"}, 125, ""},
		"no socket":                  {200, `{}`, exec, 125, "answered 200 where a socket was asked for"},
		"no sandboxd":                {404, `<html>`, exec, 125, "does not carry the streams of programs"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}))
			defer s.Close()
			code, out, errs := outcome(t, s.URL, test.args...)
			is.Equal(code, test.code)
			if !strings.Contains(out+errs, test.want) {
				t.Errorf("got %.200q, want %q", out+errs, test.want)
			}
		})
	}
}

// TestRedirect has a key stay with the server that it is for.
func TestRedirect(t *testing.T) {
	is := is.New(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	for _, args := range [][]string{{"sandbox", "list"}, {"sandbox", "exec", "-n", "x", "--", "true"}, {"sandbox", "cp", "hostile_test.go", "x:"}} {
		code, _, errs := outcome(t, s.URL, args...)
		is.True(code != 0)
		is.True(strings.Contains(errs, elsewhere.URL)) // says where the server is
	}
}

// TestBase takes addresses of servers, and nothing else.
func TestBase(t *testing.T) {
	is := is.New(t)
	for in, want := range map[string]string{
		"": defaultBaseURL, "http://h//": "http://h", "https://h/p/": "https://h/p", "http://[::1]:80": "http://[::1]:80",
		"http://h?": "", "http://h#": "", "h:80": "", "http://u:p@h": "", "unix:///x": "", "http://": "",
	} {
		got, err := (&app{globals: &globals{BaseURL: in}}).base()
		is.Equal(got, want)
		is.Equal(err == nil, want != "")
	}
}

// An item is a part of an archive.
type item struct {
	kind         byte
	name, target string // of a file its content
}

func archive(t *testing.T, items []item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{Typeflag: i.kind, Name: i.name, Linkname: i.target, Mode: 0o644, Format: tar.FormatPAX}
		if i.kind == tar.TypeReg {
			h.Linkname, h.Size = "", int64(len(i.target))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if i.kind == tar.TypeReg {
			io.WriteString(w, i.target)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostileArchive downloads from sandboxes whose tar sends what none does.
func TestHostileArchive(t *testing.T) {
	h := newHost(t)
	id, err := command("sandbox", "lease", "--env", "PATH=/mnt/data/bin:/usr/bin:/bin", "-o", "name").Output()
	if err != nil {
		t.Fatal(err)
	}
	h.id = strings.TrimSpace(string(id))
	send := command("sandbox", "exec", h.id, "--", "sh", "-c", "mkdir bin dir; cat > bin/tar; chmod 755 bin/tar")
	send.Stdin = strings.NewReader("#!/bin/sh\nexec cat /mnt/data/archive\n")
	if err := send.Run(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		items []item
		want  string // what is there then, in the folder and beside it
	}{
		"up":                     {[]item{{tar.TypeReg, "../out", "x"}}, "in outside"},
		"absolute":               {[]item{{tar.TypeReg, "/tmp/hanzo-test-out", "x"}}, "in outside"},
		"through a link":         {[]item{{tar.TypeSymlink, "l", ".."}, {tar.TypeReg, "l/out", "x"}}, "in outside"},
		"another name":           {[]item{{tar.TypeReg, "a", "x"}, {tar.TypeLink, "b", "a"}}, "in in/a in/b outside"},
		"of a file outside":      {[]item{{tar.TypeLink, "b", "../outside"}}, "in outside"},
		"of a file by a link":    {[]item{{tar.TypeSymlink, "l", "../outside"}, {tar.TypeLink, "b", "l"}}, "in outside"},
		"of none":                {[]item{{tar.TypeLink, "b", "nosuch"}, {tar.TypeReg, "a", "x"}}, "in in/a outside"},
		"a device":               {[]item{{tar.TypeChar, "null", ""}, {tar.TypeReg, "a", "x"}}, "in in/a outside"},
		"as what becomes a file": {[]item{{tar.TypeReg, ".a.part", "x"}, {tar.TypeReg, "a", "x"}}, "in in/.a.part in/a outside"},
	} {
		t.Run(name, func(t *testing.T) {
			is := is.New(t)
			put := command("sandbox", "fs", "create", h.id, "archive", "-o", "name")
			put.Stdin = bytes.NewReader(archive(t, test.items))
			is.NoErr(put.Run())
			dir := t.TempDir()
			is.NoErr(os.WriteFile(filepath.Join(dir, "outside"), nil, 0o600))
			get := command("sandbox", "cp", h.id+":dir", filepath.Join(dir, "in"))
			get.Stderr = nil
			get.Run()
			var there []string
			is.NoErr(filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
				if below, _ := filepath.Rel(dir, name); below != "." {
					there = append(there, below)
				}
				return err
			}))
			is.Equal(strings.Join(there, " "), test.want)
			_, err := os.Lstat("/tmp/hanzo-test-out")
			is.True(os.IsNotExist(err))
		})
	}
}

// TestRemarks keeps little of what a sandbox says.
func TestRemarks(t *testing.T) {
	is := is.New(t)
	var r remarks
	n, err := io.CopyN(&r, endless{'e'}, 1<<20)
	is.NoErr(err)
	is.Equal(n, int64(1<<20))
	is.Equal(r.Len(), maxRemarks)
}

// endless is the same byte for ever.
type endless struct{ b byte }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.b
	}
	return len(p), nil
}

// TestFill has zeros cost no disk, and an interrupt end what never ends.
func TestFill(t *testing.T) {
	is := is.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	tr := &transfer{app: &app{ctx: ctx}}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	is.NoErr(err)
	defer f.Close()
	const size = 64 << 20
	is.NoErr(tr.fill(f, io.MultiReader(io.LimitReader(endless{0}, size-1), strings.NewReader("x"), io.LimitReader(endless{0}, size)), 0))
	info, err := f.Stat()
	is.NoErr(err)
	is.Equal(info.Size(), int64(2*size))
	is.True(info.Sys().(*syscall.Stat_t).Blocks < 1<<11) // half a MiB
	b := make([]byte, 3)
	_, err = f.ReadAt(b, size-2)
	is.NoErr(err)
	is.Equal(string(b), "\x00x\x00")

	read, end := io.Pipe()
	go func() {
		io.CopyN(end, endless{0}, size)
		cancel()
		io.Copy(end, endless{0})
	}()
	defer read.Close()
	is.Equal(tr.fill(f, read, 0), context.Canceled)
}

// TestUnread packs what can be read, and counts the rest.
func TestUnread(t *testing.T) {
	is := is.New(t)
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		is.NoErr(os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	tr := &transfer{app: &app{ctx: t.Context()}, meter: newMeter(true)}
	entries, err := tr.walk(dir)
	is.NoErr(err)
	// Meanwhile one has gone, and one is no file any more, and nothing to wait for.
	is.NoErr(os.Remove(filepath.Join(dir, "a")))
	is.NoErr(os.Remove(filepath.Join(dir, "b")))
	is.NoErr(syscall.Mkfifo(filepath.Join(dir, "b"), 0o600))
	var packed bytes.Buffer
	quietly(t, func() { err = tr.pack(&packed, dir, entries) })
	is.NoErr(err)
	is.Equal(tr.unread, 2)
	r := tar.NewReader(&packed)
	h, err := r.Next()
	is.NoErr(err)
	is.Equal(fmt.Sprint(h.Name, h.Size), "c1")
	_, err = r.Next()
	is.Equal(err, io.EOF)
}
