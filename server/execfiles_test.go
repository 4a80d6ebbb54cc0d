package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/internal/runtimetest"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A chat is a server with an interpreter, and the service key.
type chat struct {
	t   *testing.T
	url string
}

const theServiceKey = "the-service-key"

func newChat(t *testing.T, cfg server.Config) *chat {
	m := newMemory(t)
	cfg.Sandboxes, cfg.Interpreter, cfg.ServiceKey = m.For, shell{m: m}, theServiceKey
	return &chat{t, start(t, cfg).URL}
}

func (c *chat) send(method, path, kind string, body io.Reader) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", theServiceKey)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (c *chat) upload(path, form string) (resp *http.Response, out struct {
	Message          string
	SessionID        string `json:"session_id"`
	StorageSessionID string `json:"storage_session_id"`
	Files            []struct{ FileID, Filename string }
},
) {
	c.t.Helper()
	resp = c.send("POST", path, "multipart/form-data; boundary=b", struct{ io.Reader }{strings.NewReader(form)}) // chunked
	json.NewDecoder(resp.Body).Decode(&out)
	return resp, out
}

func formOf(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--b\r\n" + p + "\r\n")
	}
	return b.String() + "--b--\r\n"
}

func filePart(name, content string) string {
	return `Content-Disposition: form-data; name="file"; filename="` + name + "\"\r\n\r\n" + content
}

func fieldPart(name, content string) string {
	return `Content-Disposition: form-data; name="` + name + "\"\r\n\r\n" + content
}

// TestBothTrees has the files of a session be the same by either address.
func TestBothTrees(t *testing.T) {
	for _, tree := range []struct{ run, base string }{{"/v1/exec", "/v1/exec"}, {"/v1/exec/exec", "/v1"}} {
		t.Run(tree.base, func(t *testing.T) {
			is := is.New(t)
			c := newChat(t, server.Config{})
			resp, up := c.upload(tree.base+"/upload", formOf(fieldPart("entity_id", "agent"), filePart("dir/naïve #1.txt", "hello")))
			is.Equal(resp.StatusCode, 200)
			is.Equal(up.Message, "success")
			is.Equal(up.SessionID, up.StorageSessionID)
			is.Equal(up.Files[0].Filename, "dir/naïve #1.txt")
			is.Equal(len(up.Files[0].FileID), 21)

			_, more := c.upload(tree.base+"/upload", formOf(fieldPart("session_id", up.SessionID), filePart("two", "2"), filePart("three", "3")))
			is.Equal(more.SessionID, up.SessionID)
			is.Equal(len(more.Files), 2)

			var rows []struct {
				Name, ID, LastModified string
				Metadata               map[string]string
			}
			is.NoErr(json.NewDecoder(c.send("GET", tree.base+"/files/"+up.SessionID+"?detail=summary", "", nil).Body).Decode(&rows))
			is.Equal(len(rows), 3)
			is.Equal(rows[0].Name, up.SessionID+"/"+rows[0].ID)
			is.Equal(rows[0].Metadata["original-filename"], "dir/naïve #1.txt")
			is.True(rows[0].LastModified != "")

			down := c.send("GET", tree.base+"/download/"+up.SessionID+"/"+up.Files[0].FileID+"?kind=user", "", nil)
			body, err := io.ReadAll(down.Body)
			is.NoErr(err)
			is.Equal(string(body), "hello")
			is.True(strings.HasPrefix(down.Header.Get("Content-Type"), "text/plain"))
			is.True(strings.HasPrefix(down.Header.Get("Content-Disposition"), "attachment"))
			is.True(down.Close) // see closeAfter
			byName := c.send("GET", tree.base+"/download/"+up.SessionID+"/"+url.PathEscape("dir/naïve #1.txt"), "", nil)
			is.Equal(byName.StatusCode, 200)

			var out map[string]any
			run := c.send("POST", tree.run, "application/json", strings.NewReader(`{"lang":"bash","code":"cat two; exit 3","session_id":"`+up.SessionID+`","user_id":"u","LIBRECHAT_CODE_API_KEY":"x"}`))
			is.NoErr(json.NewDecoder(run.Body).Decode(&out))
			is.Equal(run.StatusCode, 200)
			is.Equal(out["stdout"], "2")
			is.Equal(out["session_id"], up.SessionID)
			is.Equal(out["code"], 3.0)
		})
	}
}

func TestUploadRefused(t *testing.T) {
	c := newChat(t, server.Config{Limits: server.Limits{FileBody: 32 << 10}})
	for name, f := range map[string]struct {
		form string
		want int
	}{
		"traversal":        {formOf(filePart("../x", "x")), 400},
		"absolute":         {formOf(filePart("/etc/x", "x")), 400},
		"through a folder": {formOf(filePart("a/../../x", "x")), 400},
		"no name":          {formOf(filePart("", "x")), 400},
		"quote":            {formOf(filePart(`a"b`, "x")), 400},
		"end of a line":    {formOf(filePart("a\r\nb", "x")), 400},
		"zero":             {formOf(filePart("a\x00b", "x")), 400},
		"no file":          {formOf(fieldPart("session_id", "x")), 400},
		"nothing":          {"", 400},
		"cut":              {"--b\r\n" + filePart("x", "half of"), 400},
		"garbage":          {"garbage", 400},
		"too large":        {formOf(filePart("x", strings.Repeat("x", 64<<10))), 413},
		"huge field":       {formOf(fieldPart("x", strings.Repeat("x", 20<<10)), fieldPart("y", strings.Repeat("x", 20<<10))), 413},
	} {
		resp, _ := c.upload("/v1/exec/upload", f.form)
		if resp.StatusCode != f.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, f.want)
		}
	}
}

// TestFailedFormLeavesNothing has forms break in and after their first file: of
// the session that was opened for one nothing stays, and one that was named is
// as it was.
func TestFailedFormLeavesNothing(t *testing.T) {
	is := is.New(t)
	rt := runtimetest.New(t, sandbox.Config{})
	it, err := exec.New(rt, exec.Config{})
	is.NoErr(err)
	c := &chat{t, start(t, server.Config{
		Sandboxes: server.Runtime(rt), Interpreter: server.Interpret(it, server.Runtime(rt)), ServiceKey: theServiceKey,
		Limits: server.Limits{FileBody: 256 << 10},
	}).URL}
	sessions := func() (ids []string) {
		for info, err := range rt.List(t.Context()) {
			is.NoErr(err)
			ids = append(ids, info.ID)
		}
		return ids
	}
	large := filePart("large", strings.Repeat("x", 512<<10))
	cut := formOf(filePart("a", "1"), filePart("b", "half of")) // whose rest does not come
	forms := []string{
		formOf(large), formOf(filePart("a", "1"), large), cut[:len(cut)-8], formOf(filePart("a", "1"), filePart("../b", "2")),
		formOf(filePart("a", "1"), filePart(strings.Repeat("b", 300), "2")), formOf(filePart("a", "1"), filePart("a/b", "2")),
	}
	for _, f := range forms {
		resp, _ := c.upload("/v1/exec/upload", f)
		is.True(resp.StatusCode >= 400 && resp.StatusCode < 500)
		is.Equal(len(sessions()), 0)
	}
	_, up := c.upload("/v1/exec/upload", formOf(filePart("kept", "x")))
	for _, f := range forms {
		resp, _ := c.upload("/v1/exec/upload", "--b\r\n"+fieldPart("session_id", up.SessionID)+"\r\n"+f)
		is.True(resp.StatusCode >= 400 && resp.StatusCode < 500)
		is.Equal(sessions(), []string{up.SessionID})
	}
	is.Equal(c.send("GET", "/v1/exec/download/"+up.SessionID+"/kept", "", nil).StatusCode, 200)
}

// TestDownloadName has a strict reader understand it.
func TestDownloadName(t *testing.T) {
	is := is.New(t)
	c := newChat(t, server.Config{})
	name := `a=b:c@d;e,f'g(h)*i&j$k+l%41 "é.txt`
	_, up := c.upload("/v1/exec/upload", formOf(filePart(strings.ReplaceAll(name, `"`, `\"`), "x")))
	resp := c.send("GET", "/v1/exec/download/"+up.SessionID+"/"+up.Files[0].FileID, "", nil)
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
	is.NoErr(err)
	is.Equal(params["filename"], name)
}

func TestDownloadStaysInside(t *testing.T) {
	c := newChat(t, server.Config{})
	_, up := c.upload("/v1/exec/upload", formOf(filePart("x", "x")))
	for _, id := range []string{"..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "nosuch", "%00"} {
		resp := c.send("GET", "/v1/exec/download/"+up.SessionID+"/"+id, "", nil)
		if resp.StatusCode < 400 {
			t.Errorf("%s is %d", id, resp.StatusCode)
		}
	}
}

func TestProgrammaticIsFinal(t *testing.T) {
	is := is.New(t)
	c := newChat(t, server.Config{})
	for _, path := range []string{"/v1/exec/programmatic", "/v1/exec/exec/programmatic"} {
		resp := c.send("POST", path, "application/json", strings.NewReader(`{"code":"x","tools":[]}`))
		body, err := io.ReadAll(resp.Body)
		is.NoErr(err)
		is.Equal(resp.StatusCode, 501)
		is.True(bytes.Contains(body, []byte(`"error":"unsupported_capability"`)))
	}
}

// TestServiceKeyOpensNothingElse tries it on the sandboxes.
func TestServiceKeyOpensNothingElse(t *testing.T) {
	is := is.New(t)
	c := newChat(t, server.Config{})
	is.Equal(c.send("GET", "/v1/sandbox", "", nil).StatusCode, 401)
	is.Equal(c.send("POST", "/v1/sandbox", "application/json", strings.NewReader("{}")).StatusCode, 401)
}
