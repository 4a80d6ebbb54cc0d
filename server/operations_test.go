package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server"
)

// A scene is a server with a sandbox of every sort.
type scene struct {
	server, rationed, poor, unready  *httptest.Server
	full, broken, down               *httptest.Server
	key, noOrg                       string
	running, listening, disk, parked string
	project                          string
}

func newScene(t *testing.T) *scene {
	m, keys := newMemory(t), keyring{}
	cfg := server.Config{
		Sandboxes: m.For, Keys: keys, Interpreter: shell{m: m}, ServiceKey: "the-service-key",
		Limits: server.Limits{JSONBody: 64 << 10, FileBody: 256 << 10},
	}
	s := &scene{key: keys.add("acme", "ada", false), noOrg: keys.add("", "ada", false), server: start(t, cfg)}
	rationed := cfg
	rationed.Limits.Rate, rationed.Limits.Burst = 1e-9, 1
	s.rationed = start(t, rationed)
	poor := cfg
	poor.Ledger, poor.Fees = &purse{}, server.Fees{Run: 1, Lease: map[string]int64{"": 1}, Prepaid: true}
	poor.Interpreter = shell{m, server.Gated(poor.Ledger, poor.Fees, m.For)}
	s.poor = start(t, poor)
	full, broken, down := cfg, cfg, cfg
	full.Sandboxes = func(o sandbox.Owner) server.Sandboxes { return stuck{m.For(o).(*view), &sandbox.CeilingError{}} }
	broken.Sandboxes = func(o sandbox.Owner) server.Sandboxes {
		return stuck{m.For(o).(*view), &sandbox.ConflictError{Status: sandbox.StatusError, Why: "sandbox is error"}}
	}
	down.Sandboxes = func(o sandbox.Owner) server.Sandboxes {
		return stuck{m.For(o).(*view), errors.New("mount /srv/images/x: no such device")}
	}
	s.full, s.broken, s.down = start(t, full), start(t, broken), start(t, down)
	unready := cfg
	unready.Ready = func(context.Context) error { return errors.New("not yet") }
	s.unready = start(t, unready)
	lease := func(spec sandbox.Spec) string {
		sb, err := m.For(sandbox.Owner{Org: "acme", Actor: "ada"}).Lease(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := sb.WriteFile(t.Context(), "file", strings.NewReader("content"), 0o644); err != nil {
			t.Fatal(err)
		}
		return sb.ID()
	}
	s.running, s.listening, s.disk, s.parked = lease(sandbox.Spec{}), lease(sandbox.Spec{}), lease(sandbox.Spec{Disk: true}), lease(sandbox.Spec{Disk: true})
	s.project = lease(sandbox.Spec{Project: "taken"})
	v := m.For(sandbox.Owner{Org: "acme"}).(*view)
	if err := v.Pause(t.Context(), s.parked); err != nil {
		t.Fatal(err)
	}
	listen(t, sandbox.Handle(v, s.listening))
	return s
}

// A stuck view starts nothing.
type stuck struct {
	*view
	why error
}

func (s stuck) Lease(context.Context, sandbox.Spec) (*sandbox.Sandbox, error) { return nil, s.why }
func (s stuck) Resume(context.Context, string) error                          { return s.why }

// listen has something listen on port 7001.
func listen(t *testing.T, sb *sandbox.Sandbox) {
	ready, says := io.Pipe()
	cmd := sb.Command("listen", "7001")
	cmd.Stdout = says
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		cmd.Run(ctx)
	}()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, ready)
	t.Cleanup(func() {
		cancel()
		<-done
		says.Close()
	})
}

// A purse is a Ledger with nothing in it.
type purse struct{ server.Ledger }

func (purse) Reserve(context.Context, server.Reservation) error { return server.ErrBalance }

// An act is a request, and the status that is wanted of it.
type act struct {
	status string
	path   string // after the address
	body   string
	header http.Header
	server *httptest.Server
	late   func() string // makes the path, when it is needed
}

var never = strings.Repeat("x", 21)

// acts are what is done to each operation for each status that it documents,
// beyond what all of them have in common.
func (s *scene) acts() map[string][]act {
	bodied := func(id, more string) string { return `{"id":"` + id + `"` + more + `}` }
	at := "/v1/sandbox/" + s.running
	upgrade := http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	form := http.Header{"Content-Type": {"multipart/form-data; boundary=b"}}
	part := func(name string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\nhello\r\n--b--\r\n"
	}
	sleep := `,"argv":["sleep","60"],"timeoutSec":1`
	return map[string][]act{
		"get_sandbox":          {{status: "200", path: "/v1/sandbox?status=running"}},
		"post_sandbox":         {{status: "201", body: `{}`}, {status: "400", body: `{"class":"nosuch"}`}, {status: "402", body: `{}`, server: s.poor}, {status: "404", body: `{"cluster":"x"}`}, {status: "409", body: `{"project":"taken"}`}, {status: "503", body: `{}`, server: s.down}},
		"lease_sandbox":        {{status: "200", body: `{}`}, {status: "400", body: `{"runtime":"runc"}`}, {status: "402", body: `{}`, server: s.poor}, {status: "404", body: `{"cluster":"x"}`}, {status: "409", body: `{"project":"taken"}`}, {status: "429", body: `{}`, server: s.full}, {status: "503", body: `{}`, server: s.down}},
		"end_sandbox":          {{status: "204", body: bodied(s.end(), "")}},
		"run_in_sandbox":       {{status: "200", body: bodied(s.running, `,"argv":["true"]`)}, {status: "400", body: bodied(s.running, "")}, {status: "409", body: bodied(s.parked, `,"argv":["true"]`)}, {status: "502", body: bodied(s.running, sleep)}},
		"stop_run":             {{status: "200", body: bodied(s.running, "")}},
		"read_sandbox_file":    {{status: "200", body: bodied(s.running, `,"path":"file"`)}, {status: "400", body: bodied(s.running, `,"path":"../x"`)}, {status: "409", body: bodied(s.parked, `,"path":"file"`)}, {status: "404", body: bodied(s.running, `,"path":"nosuch"`)}},
		"write_sandbox_file":   {{status: "200", body: bodied(s.running, `,"path":"new","data":"aGk="`)}, {status: "400", body: bodied(s.running, `,"path":"","data":""`)}, {status: "409", body: bodied(s.parked, `,"path":"file"`)}},
		"get_sandbox_by_id":    {{status: "200", path: at}},
		"delete_sandbox_by_id": {{status: "204", path: "/v1/sandbox/" + s.end() + "?purge=1"}},
		"post_sandbox_by_id_exec": {
			{status: "200", path: at + "/exec", body: `{"argv":["true"]}`},
			{status: "400", path: at + "/exec", body: `{}`},
			{status: "409", path: "/v1/sandbox/" + s.parked + "/exec", body: `{"argv":["true"]}`},
			{status: "502", path: at + "/exec", body: bodied("ignored", sleep)},
		},
		"get_sandbox_by_id_exec_ws": {{status: "101", path: at + "/exec/ws", header: upgrade}, {status: "400", path: at + "/exec/ws"}, {status: "409", path: "/v1/sandbox/" + s.parked + "/exec/ws", header: upgrade}},
		"get_sandbox_by_id_dial": {
			{status: "101", path: "/v1/sandbox/" + s.listening + "/dial/7001", header: upgrade},
			{status: "400", path: at + "/dial/0", header: upgrade},
			{status: "404", path: "/v1/sandbox/" + never + "/dial/80", header: upgrade},
			{status: "409", path: "/v1/sandbox/" + s.parked + "/dial/7001", header: upgrade},
			{status: "502", path: at + "/dial/7003", header: upgrade},
		},
		"get_sandbox_by_id_fs":      {{status: "200", path: at + "/fs?path=file"}, {status: "400", path: at + "/fs?path=/etc/passwd"}, {status: "409", path: "/v1/sandbox/" + s.parked + "/fs?path=file"}},
		"head_sandbox_by_id_fs":     {{status: "200", path: at + "/fs?path=file"}, {status: "400", path: at + "/fs?path=a..b"}, {status: "409", path: "/v1/sandbox/" + s.parked + "/fs?path=file"}},
		"post_sandbox_by_id_fs":     {{status: "200", path: at + "/fs?path=new", body: "x"}, {status: "400", path: at + "/fs?mode=9&path=new", body: "x"}, {status: "409", path: "/v1/sandbox/" + s.parked + "/fs?path=file", body: "x"}, {status: "413", path: at + "/fs?path=big", body: strings.Repeat("x", 300<<10)}},
		"delete_sandbox_by_id_fs":   {{status: "204", path: at + "/fs?path=nosuch&tree=1"}, {status: "400", path: at + "/fs"}, {status: "409", path: "/v1/sandbox/" + s.parked + "/fs?path=file"}},
		"post_sandbox_by_id_pause":  {{status: "200", path: "/v1/sandbox/" + s.disk + "/pause"}, {status: "409", path: at + "/pause"}},
		"post_sandbox_by_id_resume": {{status: "200", path: "/v1/sandbox/" + s.disk + "/resume"}, {status: "402", path: "/v1/sandbox/" + s.parked + "/resume", server: s.poor}, {status: "409", path: at + "/resume", server: s.broken}, {status: "429", path: at + "/resume", server: s.full}, {status: "503", path: at + "/resume", server: s.down}},
		"post_sandbox_by_id_renew":  {{status: "200", path: at + "/renew", body: `{"ttlSec":60}`}, {status: "400", path: at + "/renew", body: `{"ttlSec":-1}`}, {status: "409", path: "/v1/sandbox/" + s.parked + "/renew", body: `{}`}},
		"get_sandbox_by_id_ports":   {{status: "200", path: at + "/ports"}, {status: "409", path: "/v1/sandbox/" + s.parked + "/ports"}},

		"post_sandbox_by_id_preview":         {{status: "200", path: at + "/preview", body: `{"port":80}`}, {status: "400", path: at + "/preview", body: `{"port":0}`}, {status: "409", path: "/v1/sandbox/" + s.parked + "/preview", body: `{"port":80}`}},
		"post_sandbox_by_id_terminal_ticket": {{status: "201", path: at + "/terminal/ticket"}, {status: "409", path: "/v1/sandbox/" + s.parked + "/terminal/ticket"}},
		"get_sandbox_by_id_terminal":         {{status: "200", path: at + "/terminal"}},
		"get_sandbox_by_id_terminal_ws":      s.sockets("terminal", upgrade),
		"post_sandbox_by_id_screen_ticket":   {{status: "201", path: at + "/screen/ticket"}, {status: "409", path: "/v1/sandbox/" + s.parked + "/screen/ticket"}},
		"get_sandbox_by_id_screen":           {{status: "200", path: at + "/screen"}},
		"get_sandbox_by_id_screen_ws":        s.sockets("screen", upgrade),

		"post_exec":              {{status: "200", body: `{"lang":"bash","code":"echo hi"}`}, {status: "400", body: `{"lang":"cobol","code":"x"}`}, {status: "402", body: `{"lang":"bash","code":"echo hi"}`, server: s.poor}},
		"post_exec_upload":       {{status: "200", header: form, body: part("a/b.txt")}, {status: "400", header: form, body: part("../x")}, {status: "402", header: form, body: part("a/b.txt"), server: s.poor}, {status: "415", body: "{}"}, {status: "413", header: form, body: part("big") + strings.Repeat("x", 300<<10)}},
		"get_exec_download":      {{status: "200", path: "/v1/exec/download/" + s.running + "/file"}, {status: "404", path: "/v1/exec/download/" + s.running + "/nosuch"}},
		"get_exec_files_by_sid":  {{status: "200", path: "/v1/exec/files/" + s.running}, {status: "404", path: "/v1/exec/files/" + never}},
		"post_exec_programmatic": {{status: "501", body: "{}"}, {status: "400", body: "{"}},

		"get_livez":        {{status: "200"}},
		"get_readyz":       {{status: "200"}, {status: "503", server: s.unready}},
		"get_openapi_yaml": {{status: "200"}},
		"get_openapi_json": {{status: "200"}},
		"get_docs":         {{status: "200"}},
	}
}

// sockets are what is done to a terminal's or a screen's.
func (s *scene) sockets(door string, upgrade http.Header) []act {
	foreign := upgrade.Clone()
	foreign.Set("Origin", "https://elsewhere.example")
	path := func(id string) string { return "/v1/sandbox/" + id + "/" + door + "/ws?ticket=" }
	ticket := func(id string) string {
		var out struct{ Ticket string }
		s.post("/v1/sandbox/"+id+"/"+door+"/ticket", "", &out)
		return path(id) + out.Ticket
	}
	return []act{
		{status: "101", header: upgrade, late: func() string { return ticket(s.running) }},
		{status: "400", path: path(s.running)},
		{status: "401", path: path(s.running) + "wrong", header: upgrade},
		{status: "403", path: path(s.running) + "wrong", header: foreign},
		{status: "404", header: upgrade, late: func() string {
			id := s.end()
			defer s.post("/v1/sandbox/end", `{"id":"`+id+`"}`, nil)
			return ticket(id)
		}},
		{status: "409", header: upgrade, late: func() string {
			var out struct{ ID string }
			s.post("/v1/sandbox", `{"disk":true}`, &out)
			defer s.post("/v1/sandbox/"+out.ID+"/pause", "", nil)
			return ticket(out.ID)
		}},
	}
}

// end leases a sandbox that is to be ended.
func (s *scene) end() string {
	var out struct{ ID string }
	s.post("/v1/sandbox", "{}", &out)
	return out.ID
}

// post calls the API.
func (s *scene) post(path, body string, out any) {
	req, _ := http.NewRequest(http.MethodPost, s.server.URL+path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	if out == nil {
		return
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		panic(err)
	}
}

// common are the acts that are the same for all operations, by status.
func (s *scene) common(op *openapi3.Operation, path string) map[string]act {
	body := ""
	if op.RequestBody != nil {
		body = `{"id":"` + never + `","argv":["true"],"path":"x","port":80,"lang":"bash","code":"x"}`
	}
	return map[string]act{
		"400": {body: "{", header: http.Header{}},
		"401": {body: body, header: http.Header{"Authorization": {"Bearer wrong"}}},
		"403": {body: body, header: http.Header{"Authorization": {"Bearer " + s.noOrg}}},
		"404": {body: body},
		"413": {body: `{"id":"` + strings.Repeat("x", 128<<10) + `"}`},
		"415": {body: "x=1", header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}},
		"429": {body: body, server: s.rationed},
	}
}

// TestEveryOperation calls every operation once with success and once with
// each error that it documents, and wants the answers to be as the document
// says.
func TestEveryOperation(t *testing.T) {
	s := newScene(t)
	acts := s.acts()
	doc, err := openapi3.NewLoader().LoadFromData(api.YAML)
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			t.Run(op.OperationID, func(t *testing.T) {
				if len(acts[op.OperationID]) == 0 {
					t.Fatal("is not tested")
				}
				common := s.common(op, path)
				for _, status := range slices.Sorted(maps.Keys(op.Responses.Map())) {
					if status == "default" || success(status) && has(op, "501") {
						continue
					}
					a, ok := common[status]
					for _, own := range acts[op.OperationID] {
						if own.status == status {
							a, ok = own, true
						}
					}
					if !ok {
						t.Errorf("%s is documented and not tested", status)
						continue
					}
					if a.path == "" {
						a.path = strings.NewReplacer("{id}", never, "{sid}", never, "{session_id}", never, "{fileId}", "x", "{port}", "80").Replace(path)
					}
					if a.late != nil {
						a.path = a.late()
					}
					s.perform(t, method, status, &a, op)
				}
			})
		}
	}
}

func has(op *openapi3.Operation, status string) bool { return op.Responses.Value(status) != nil }

func success(status string) bool { return status < "3" }

func (s *scene) perform(t *testing.T, method, status string, a *act, op *openapi3.Operation) {
	t.Helper()
	on := s.server
	if a.server != nil {
		on = a.server
	}
	times := 1
	if on == s.rationed {
		times = 2
	}
	for range times {
		req, err := http.NewRequestWithContext(t.Context(), method, on.URL+a.path, strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.key)
		if op.RequestBody != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		maps.Copy(req.Header, a.header)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", status, err)
		}
		body := []byte{}
		if status != "101" {
			body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		}
		resp.Body.Close()
		if err != nil {
			t.Fatalf("%s: %v", status, err)
		}
		if times == 2 {
			times = 0
			continue
		}
		if strconv.Itoa(resp.StatusCode) != status {
			t.Errorf("%s %.100s: got %d, want %s: %.300s", method, a.path, resp.StatusCode, status, body)
			return
		}
		asDocumented(t, op, status, resp, body)
	}
}

// asDocumented checks an answer against the document.
func asDocumented(t *testing.T, op *openapi3.Operation, status string, resp *http.Response, body []byte) {
	t.Helper()
	response := op.Responses.Value(status).Value
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	media := response.Content[kind]
	if len(response.Content) > 0 && media == nil {
		t.Errorf("%s: media type %q is not documented", status, kind)
		return
	}
	if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") == "" || resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s lacks its header", status)
	}
	if media == nil || !strings.HasSuffix(kind, "json") {
		return
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s: %v in %.200s", status, err, body)
		return
	}
	if err := media.Schema.Value.VisitJSON(v, openapi3.VisitAsResponse()); err != nil {
		t.Errorf("%s: %v", status, err)
	}
	if text := string(body); strings.Contains(text, "/root") || strings.Contains(text, "/srv") || strings.Contains(text, "goroutine") || strings.Contains(text, ".go:") {
		t.Errorf("%s tells of the server: %s", status, text)
	}
}
