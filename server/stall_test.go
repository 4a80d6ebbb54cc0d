package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A request that is sent by hand, to be answered as slowly as one likes.
type request struct{ method, path, body string }

func (r *request) send(t *testing.T, to, key string) *bufio.Reader {
	t.Helper()
	is := is.New(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(to, "http://"))
	is.NoErr(err)
	t.Cleanup(func() { conn.Close() })
	req, err := http.NewRequestWithContext(t.Context(), r.method, to+r.path, strings.NewReader(r.body))
	is.NoErr(err)
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	is.NoErr(req.Write(conn))
	return bufio.NewReader(conn)
}

// TestDownloadsStall has callers take nothing of an answer, or take it slowly:
// the former are given up on, and the latter get all of it.
func TestDownloadsStall(t *testing.T) {
	rt := runtimetest.New(t, sandbox.Config{})
	sandboxes := server.Runtime(rt)
	it, err := exec.New(rt, exec.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const size, stall, steps = 32 << 20, time.Second, 128
	cfg := server.Config{
		Sandboxes: sandboxes, Interpreter: server.Interpret(it, sandboxes), Keys: keyring{},
		Limits: server.Limits{StallTime: stall},
	}
	d := newDesk(t, cfg)
	d.send(t.Context(), http.MethodPost, "/v1/sandbox/"+d.id+"/fs?path=large", strings.Repeat("x", size))
	cfg.Keys = d.keys
	for _, r := range []request{
		{"GET", "/v1/sandbox/" + d.id + "/fs?path=large", ""},
		{"GET", "/v1/exec/download/" + d.id + "/large", ""},
		{"POST", "/v1/sandbox/read", `{"id":"` + d.id + `","path":"large"}`},
	} {
		t.Run(r.path, func(t *testing.T) {
			is := is.New(t)
			s := start(t, cfg)
			answer := r.send(t, s.URL, d.key)
			begun, err := answer.Peek(15)
			is.NoErr(err)
			is.Equal(string(begun), "HTTP/1.1 200 OK")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			is.NoErr(s.Config.Shutdown(ctx)) // which waits for answers

			began := time.Now()
			resp, err := http.ReadResponse(r.send(t, d.url, d.key), nil)
			is.NoErr(err)
			pace := time.NewTicker(3 * stall / steps)
			defer pace.Stop()
			total := int64(0)
			for err == nil {
				var n int64
				n, err = io.CopyN(io.Discard, resp.Body, size/steps)
				total += n
				<-pace.C
			}
			is.Equal(err, io.EOF) // and not in the middle
			is.True(total >= size)
			is.True(time.Since(began) > 2*stall)
		})
	}
}

// TestUploadStalls sends half a file and then nothing.
func TestUploadStalls(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{Limits: server.Limits{StallTime: 100 * time.Millisecond}})
	r, w := io.Pipe()
	defer w.Close()
	go w.Write([]byte("half of it")) //nolint:errcheck // the answer says
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/sandbox/"+d.id+"/fs?path=half", r)
	is.NoErr(err)
	req.Header.Set("Authorization", "Bearer "+d.key)
	if resp, err := http.DefaultClient.Do(req); err == nil { // else it hung up
		resp.Body.Close()
		is.True(resp.StatusCode >= 400)
	}
	is.Equal(d.send(t.Context(), http.MethodGet, "/v1/sandbox/"+d.id+"/fs?path=half", "").StatusCode, 404)
}
