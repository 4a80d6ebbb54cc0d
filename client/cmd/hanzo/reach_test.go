//go:build linux

package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/sandbox"
)

func openapi(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../../../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// A recorder knows which operations it was asked for, and with which fields.
type recorder struct {
	routes []route

	mu   sync.Mutex
	seen map[string]map[string]bool // fields by operation
}

type route struct {
	method string
	path   *regexp.Regexp
	id     string
	free   int // how much of it is a parameter
}

func newRecorder(t *testing.T) *recorder {
	rec := &recorder{seen: map[string]map[string]bool{}}
	parameter := regexp.MustCompile(`\\\{[^/]*\\\}`)
	for path, item := range openapi(t).Paths.Map() {
		pattern := parameter.ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		for method, op := range item.Operations() {
			rec.routes = append(rec.routes, route{method, regexp.MustCompile("^" + pattern + "$"), op.OperationID, strings.Count(path, "{")})
		}
	}
	slices.SortFunc(rec.routes, func(a, b route) int { return a.free - b.free })
	return rec
}

func (rec *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, route := range rec.routes {
		if route.method != r.Method || !route.path.MatchString(r.URL.Path) {
			continue
		}
		fields := map[string]bool{}
		for name := range r.URL.Query() {
			fields[name] = true
		}
		var body map[string]any
		if b, err := io.ReadAll(r.Body); err == nil && json.Unmarshal(b, &body) == nil {
			for name := range body {
				fields[name] = true
			}
		}
		rec.mu.Lock()
		if rec.seen[route.id] == nil {
			rec.seen[route.id] = map[string]bool{}
		}
		maps.Copy(rec.seen[route.id], fields)
		rec.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
		return
	}
	http.NotFound(w, r)
}

// everything is a command line for each operation, with all of its fields.
func everything(file string) []string {
	lease := ` --class dev --project p --image i --runtime gvisor --cluster c --ttl-sec 5 --env A=1 --disk --fixed --cpus 1 --memory 1 --network none`
	return []string{
		"sandbox list --project p --status running",
		"sandbox create" + lease,
		"sandbox lease --id x" + lease,
		"sandbox get x", "sandbox rm x --purge", "sandbox end --id x --purge",
		"sandbox renew x --ttl-sec 5", "sandbox pause x", "sandbox resume x", "sandbox ports x",
		"sandbox stop --id x",
		"sandbox read --id x --path p", "sandbox write --id x --path p --data d",
		"sandbox run --id x --argv a --command c --dir d --stdin s --timeout-sec 5 --session s --events --blind secret --env A=1 --user 1 --limits cpu=1",
		"sandbox exec -o json -C d -e A=1 -u 1 --timeout 5s x -- true",
		"sandbox exec -n x -- true",
		"sandbox fs get x p --stat list --offset 1", "sandbox fs create x p --data d --mode 644", "sandbox fs mkdir -p x d",
		"sandbox fs stat x p", "sandbox fs rm -r x p",
		"sandbox preview x 80",
		"sandbox terminal ticket x", "sandbox terminal get x --ticket t", "sandbox terminal ws x --ticket t --arg a",
		"sandbox screen ticket x", "sandbox screen get x --ticket t", "sandbox screen ws x --ticket t",
		`exec create --lang py --code c --args a --files {"id":"i","name":"n"} --session-id s --user-id u --entity-id e --runtime-session-hint h --timeout 5`,
		"exec files get s", "exec upload --session-id s " + file, "exec download s f", "exec programmatic",
		"server live", "server ready", "server openapi", "server openapi --json", "server docs",
	}
}

// unreached are operations that nobody comes by through one request of the
// tool's: their scripts are in testdata.
var unreached = []string{"get_sandbox_by_id_dial"}

// unset are fields that have no flag: they are of a caller's other side, or
// said otherwise.
var unset = map[string][]string{
	"post_sandbox_by_id_exec":    {"id", "command", "stdin", "limits", "stream"},
	"run_in_sandbox":             {"stream"},
	"post_sandbox_by_id_preview": {"id"},
	"get_exec_files_by_sid":      {"detail"},
	"post_sandbox_by_id_fs":      {"upload"},
	"delete_sandbox_by_id_fs":    {"upload"},
}

// TestEveryOperation has every operation of the document be reached, and every
// field of those that take values be sent.
func TestEveryOperation(t *testing.T) {
	rec := newRecorder(t)
	s := httptest.NewServer(rec)
	t.Cleanup(s.Close)
	t.Cleanup(httpClient.CloseIdleConnections)
	t.Setenv("HANZO_BASE_URL", s.URL)
	t.Setenv("HANZO_API_KEY", "sk-a-key")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	quietly(t, func() {
		for _, line := range everything(file) {
			if run(strings.Fields(line)) == exitUsage {
				t.Errorf("hanzo %s: is no command line", line)
			}
		}
	})
	for path, item := range openapi(t).Paths.Map() {
		for method, op := range item.Operations() {
			fields, ok := rec.seen[op.OperationID]
			if !ok && !slices.Contains(unreached, op.OperationID) {
				t.Errorf("%s (%s %s) is not reached", op.OperationID, method, path)
			}
			if !ok {
				continue
			}
			want := map[string]bool{}
			for _, p := range append(op.Parameters, item.Parameters...) {
				if p.Value.In == "query" {
					want[p.Value.Name] = true
				}
			}
			if op.RequestBody != nil {
				if media := op.RequestBody.Value.Content["application/json"]; media != nil {
					for name := range media.Schema.Value.Properties {
						want[name] = true
					}
				}
			}
			for name := range want {
				if !fields[name] && !slices.Contains(unset[op.OperationID], name) {
					t.Errorf("%s: field %s cannot be set", op.OperationID, name)
				}
			}
		}
	}
}

// quietly has what f prints go nowhere.
func quietly(t *testing.T, f func()) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	in, out, errs := os.Stdin, os.Stdout, os.Stderr
	os.Stdin, os.Stdout, os.Stderr = null, null, null
	defer func() { os.Stdin, os.Stdout, os.Stderr = in, out, errs }()
	f()
}

// TestAnswers shows the same answer in each format.
func TestAnswers(t *testing.T) {
	is := is.New(t)
	list := `{"sandboxes":[{"id":"a1","kind":"sandbox","class":"exec","status":"running","image":"host"}]}`
	for format, want := range map[string]string{
		"name":  "a1\n",
		"table": "ID  CLASS  STATUS   PROJECT  IMAGE  EXPIRESAT\na1  exec   running           host   \n",
		"json":  "{\n  \"sandboxes\": [\n    {\n      \"id\": \"a1\",\n      \"kind\": \"sandbox\",\n      \"class\": \"exec\",\n      \"status\": \"running\",\n      \"image\": \"host\"\n    }\n  ]\n}\n",
	} {
		var out strings.Builder
		is.NoErr((&app{globals: &globals{Output: format}}).print(&out, []byte(list)))
		is.Equal(out.String(), want)
	}
	var out strings.Builder
	is.NoErr((&app{globals: &globals{Output: "table"}}).print(&out, []byte(`{"error":"\u001b[2Jgone"}`)))
	is.True(!strings.Contains(out.String(), "\x1b")) // a sandbox does not move the cursor
}

// TestCompletion completes commands and flags.
func TestCompletion(t *testing.T) {
	is := is.New(t)
	parser, err := newParser(&cli{})
	is.NoErr(err)
	url, known := newServer(t)
	t.Setenv("HANZO_API_KEY", known.add("acme"))
	a := &app{globals: &globals{BaseURL: url}, ctx: t.Context(), parser: parser}
	is.Equal(a.complete([]string{"sandbox", "res"}), []string{"resume"})
	is.Equal(a.complete([]string{"sandbox", "end", "--pu"}), []string{"--purge"})
	is.Equal(a.complete([]string{"--base-url", "sandbox", "ex"}), []string{"exec"})
	is.True(slices.Contains(a.complete([]string{""}), "sandbox"))

	remote, err := a.remote()
	is.NoErr(err)
	sb, err := remote.Lease(t.Context(), sandbox.Spec{})
	is.NoErr(err)
	for _, line := range []string{"get", "exec", "exec -e A=1", "rm other", "end --id", "run --command true --id", "terminal", "terminal ws"} {
		is.Equal(a.complete(append(append([]string{"sandbox"}, strings.Fields(line)...), sb.ID()[:4])), []string{sb.ID()}) // an id
	}
	is.Equal(a.complete([]string{"exec", "files", "get", ""}), []string{sb.ID()})
	is.Equal(a.complete([]string{"sandbox", "cp", "src", sb.ID()[:4]}), []string{sb.ID() + ":"})
	is.Equal(a.complete([]string{"sandbox", "cp", ""}), nil) // which may be a file here
	is.Equal(a.complete([]string{"sandbox", "exec", "--no"}), []string{"--no-stdin"})
	is.Equal(a.complete([]string{"sandbox", "list", "-o", "j"}), []string{"json"})
	is.Equal(a.complete([]string{"sandbox", "list", "--output", "=", "j"}), []string{"json"}) // as bash splits it
	is.Equal(a.complete([]string{"completion", "f"}), []string{"fish"})
	is.Equal(a.complete([]string{"sandbox", "exec", sb.ID(), ""}), nil)      // a program's name is not known here
	is.Equal(a.complete([]string{"sandbox", "lease", "--project", ""}), nil) // nor a project's
	a.BaseURL = "http://127.0.0.1:9"
	is.Equal(a.complete([]string{"sandbox", "get", ""}), nil) // without a server it is silent
}
