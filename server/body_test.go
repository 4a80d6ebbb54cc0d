package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/server"
)

// TestBodyFaults has what is wrong with a body be said in its sender's words.
func TestBodyFaults(t *testing.T) {
	d := newDesk(t, server.Config{})
	for body, want := range map[string]string{
		``:                                     "it is missing, and a JSON object is wanted",
		`{`:                                    "it is no JSON",
		`{"argv": nothing}`:                    "it is no JSON",
		`[]`:                                   "it: want an object, and it is an array",
		`{"argv":"ls -l"}`:                     "argv: want an array, and it is a string",
		`{"argv":["ls"],"timeoutSec":"5"}`:     "timeoutSec: want a whole number, not too large, and it is a string",
		`{"argv":["ls"],"timeoutSec":1.5}`:     "timeoutSec: want a whole number, not too large, and it is number 1.5",
		`{"argv":["ls",{}]}`:                   "argv: want a string, and it is an object",
		`{"command":7}`:                        "command: want a string, and it is number",
		`{"command":"ls","user":{"uid":true}}`: "user.uid: want a whole number, not too large, and it is true or false",
		`{"command":"ls","stream":"yes"}`:      "stream: want true or false, and it is a string",
	} {
		resp := d.send(t.Context(), "POST", "/v1/sandbox/"+d.id+"/exec", body)
		var p struct{ Detail string }
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.Detail != "invalid body: "+want {
			t.Errorf("%s: %q, want %q, %v", body, p.Detail, want, err)
		}
	}
}

// TestBadBodies sends each operation that takes JSON what is none.
func TestBadBodies(t *testing.T) {
	d := newDesk(t, server.Config{Limits: server.Limits{JSONBody: 4 << 10}, Interpreter: noInterpreter{}})
	for _, r := range routes(t) {
		if r.method != http.MethodPost || !takesJSON[r.id] {
			continue
		}
		path := strings.NewReplacer("{id}", d.id).Replace(r.path)
		for name, c := range map[string]struct {
			body string
			want int
		}{
			"malformed":       {`{`, 400},
			"no object":       {`[]`, 400},
			"a string":        {`"x"`, 400},
			"missing":         {``, 400},
			"wrong types":     {`{"id":1,"argv":"x","port":"x","ttlSec":"x","lang":1,"path":[]}`, 400},
			"a fraction":      {`{"id":"x","timeoutSec":1.5,"ttlSec":1.5,"port":1.5,"timeout":1.5,"path":5,"purge":7}`, 400},
			"a number beyond": {`{"id":"x","timeoutSec":1e30,"ttlSec":99999999999999999999,"port":1e30,"timeout":1e30,"path":1,"purge":0}`, 400},
			"over the limit":  {`{"id":"` + strings.Repeat("x", 5<<10) + `"}`, 413},
			"deep":            {strings.Repeat("[", 4000), 400},
		} {
			if r.id == "stop_run" && (name == "a fraction" || name == "a number beyond") {
				continue // it has no number
			}
			resp := d.send(t.Context(), "POST", path, c.body)
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.want && !(resp.StatusCode == http.StatusNotImplemented && c.want == 400) {
				t.Errorf("%s, %s: %d, want %d: %.200s", r.id, name, resp.StatusCode, c.want, body)
			}
			var p struct{ Detail, Code string }
			if json.Unmarshal(body, &p) != nil || p.Detail == "" || p.Code == "" || len(p.Detail) > 500 {
				t.Errorf("%s, %s: %.200s is no problem", r.id, name, body)
			}
		}
		resp := d.sendAs(t.Context(), path, "x=1", "application/x-www-form-urlencoded")
		if resp.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("%s takes a form: %d", r.id, resp.StatusCode)
		}
	}
}

var takesJSON = map[string]bool{
	"post_sandbox": true, "lease_sandbox": true, "end_sandbox": true, "run_in_sandbox": true, "stop_run": true,
	"read_sandbox_file": true, "write_sandbox_file": true, "post_sandbox_by_id_exec": true, "post_sandbox_by_id_renew": true, "post_exec": true,
}

func (d *desk) sendAs(ctx context.Context, path, body, kind string) *http.Response {
	d.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.key)
	req.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestLongNames has no answer repeat a name of 30 kB.
func TestLongNames(t *testing.T) {
	d := engineDesk(t)
	long := strings.Repeat("x", 30<<10)
	at := "/v1/sandbox/" + d.id
	for _, c := range []struct{ method, path, body string }{
		{"GET", at + "/fs?path=" + long, ""},
		{"GET", at + "/fs?stat=tree&path=" + long, ""},
		{"POST", at + "/fs?path=" + long, "x"},
		{"DELETE", at + "/fs?path=" + long, ""},
		{"POST", "/v1/sandbox/read", object("id", d.id, "path", long)},
		{"POST", "/v1/sandbox/write", object("id", d.id, "path", long, "data", "")},
		{"POST", at + "/exec", object("argv", []string{long})},
		{"POST", at + "/exec", object("argv", []string{"true"}, "dir", long)},
		{"POST", at + "/exec", object("argv", []string{"true"}, "env", []string{long})},
		{"POST", "/v1/sandbox", object("class", long)},
		{"POST", "/v1/sandbox", object("image", long)},
		{"GET", "/v1/sandbox/" + long, ""},
		{"GET", at + "/dial/" + long, ""},
	} {
		resp := d.send(t.Context(), c.method, c.path, c.body)
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if len(body) > 1<<10 || !bytes.Contains(body, []byte(`"`)) {
			t.Errorf("%s %.60s is answered with %d bytes: %.300s", c.method, c.path, len(body), body)
		}
	}
}

// TestChunkedOverTheLimit has no length to go by.
func TestChunkedOverTheLimit(t *testing.T) {
	d := newDesk(t, server.Config{Limits: server.Limits{JSONBody: 4 << 10, FileBody: 64 << 10}})
	for path, kind := range map[string]string{
		"/v1/sandbox": "application/json", "/v1/sandbox/" + d.id + "/fs?path=big": "application/octet-stream",
	} {
		is := is.New(t)
		body := io.MultiReader(strings.NewReader(`{"image":"`), bytes.NewReader(bytes.Repeat([]byte("x"), 1<<20)))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+path, struct{ io.Reader }{body})
		is.NoErr(err)
		req.Header.Set("Authorization", "Bearer "+d.key)
		req.Header.Set("Content-Type", kind)
		resp, err := http.DefaultClient.Do(req)
		is.NoErr(err)
		resp.Body.Close()
		is.Equal(resp.StatusCode, 413)
	}
	is := is.New(t)
	is.Equal(d.send(t.Context(), "GET", "/v1/sandbox/"+d.id+"/fs?path=big", "").StatusCode, 404) // nothing of it is there
}

// TestSlowBody sends half a body and then nothing.
func TestSlowBody(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{Limits: server.Limits{BodyTime: 50 * time.Millisecond}})
	r, w := io.Pipe()
	defer w.CloseWithError(errors.New("on purpose"))
	go w.Write([]byte(`{"class":`))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/sandbox", r)
	is.NoErr(err)
	req.Header.Set("Authorization", "Bearer "+d.key)
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	is.True(time.Since(began) < 5*time.Second)
	if err == nil {
		resp.Body.Close()
		is.Equal(resp.StatusCode, 400)
	}
	_, status := d.exec("command", "true")
	is.Equal(status, 200)
}

// TestBodyOfAnUpgrade has a request that asks for another protocol be bound as
// any other.
func TestBodyOfAnUpgrade(t *testing.T) {
	is := is.New(t)
	d := newDesk(t, server.Config{Limits: server.Limits{JSONBody: 4 << 10}})
	body := struct{ io.Reader }{strings.NewReader(`{"image":"` + strings.Repeat("x", 1<<20) + `"}`)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/sandbox", body)
	is.NoErr(err)
	req.Header = http.Header{
		"Authorization": {"Bearer " + d.key}, "Content-Type": {"application/json"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"},
	}
	resp, err := http.DefaultClient.Do(req)
	is.NoErr(err)
	resp.Body.Close()
	is.Equal(resp.StatusCode, 413)
}
