package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addPlain adds the tools that need no explanation. Their inputs are parts of
// what operations take, with the document's words.
func (s *Server) addPlain() {
	id := func(schema map[string]any) map[string]any {
		return with(schema, "id", map[string]any{"type": "string", "description": "The sandbox; without it, one of your own."})
	}
	run, code, read := s.operations["run_in_sandbox"], s.operations["post_exec"], s.operations["read_sandbox_file"]
	s.plain("run_code", "Run code",
		"Runs a whole program and returns what it prints; images that it saves are shown. Its working directory keeps its files.",
		pick(code, []string{"lang", "code"}, "args", "timeout", "session_id"), false, s.runCode)
	s.plain("run_command", "Run a command",
		"Runs a command in a sandbox and returns what it prints and its exit code. Give command, a shell line, or argv.",
		id(pick(run, nil, "command", "argv", "dir", "stdin", "timeoutSec")), false, s.runCommand)
	offset := map[string]any{"type": "integer", "minimum": 0, "description": "How many of the file's bytes to leave out at its beginning."}
	s.plain("read_file", "Read a file", "Reads a file of a sandbox: text, or an image.",
		id(with(pick(read, []string{"path"}), "offset", offset)), true, s.readFile)
	s.plain("list_files", "List files", "Lists a directory of a sandbox.", id(pick(read, nil, "path")), true, s.listFiles)
	s.plain("write_file", "Write a file", "Writes a text file into a sandbox, or replaces one.",
		id(with(pick(s.operations["write_sandbox_file"], []string{"path"}), "content", map[string]any{"type": "string", "description": "All that the file is to have."}, "content")),
		false, s.writeFile)
}

// pick is a schema with some of what an operation takes.
func pick(op *operation, required []string, optional ...string) map[string]any {
	properties := map[string]any{}
	for _, name := range append(slices.Clone(required), optional...) {
		properties[name] = op.Properties[name]
	}
	return object(properties, required)
}

// with adds a property to a schema.
func with(schema map[string]any, name string, property map[string]any, required ...string) map[string]any {
	properties := maps.Clone(schema["properties"].(map[string]any)) //nolint:errcheck // as object makes it
	properties[name] = property
	needed, _ := schema["required"].([]string) //nolint:errcheck // none is fine
	return object(properties, append(slices.Clone(needed), required...))
}

type plainTool func(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error)

func (s *Server) plain(name, title, about string, schema map[string]any, readOnly bool, f plainTool) {
	closed := false
	s.sdk.AddTool(&sdk.Tool{
		Name: name, Title: title, Description: about, InputSchema: schema,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: readOnly, OpenWorldHint: &closed},
	}, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		in, err := arguments(req.Params.Arguments)
		if err == nil {
			err = needed(schema, in)
		}
		var r *sdk.CallToolResult
		if err == nil {
			r, err = f(ctx, req, in)
		}
		if err != nil {
			return s.failed(err), nil
		}
		return r, nil
	})
}

func needed(schema map[string]any, in input) error {
	names, _ := schema["required"].([]string) //nolint:errcheck // none is fine
	for _, name := range names {
		if _, ok := in[name]; !ok {
			return inputError(name + " is needed")
		}
	}
	return nil
}

// place is the sandbox to work in, and what is to be said about it.
func (s *Server) place(ctx context.Context, req *sdk.CallToolRequest, in input) (id, note string, err error) {
	if id, err = stringIn(in, "id"); id != "" || err != nil {
		return id, "", err
	}
	if standsAlone(ctx) {
		id, err = s.lease(ctx, req, "")
		return id, "[sandbox " + id + ": give it as id to go on there]", err
	}
	h := s.sessions.hold(ctx, req.Session)
	h.mu.Lock()
	defer h.mu.Unlock()
	if id, err = s.lease(ctx, req, h.place); err != nil {
		return "", "", err
	}
	return id, h.moved(id), nil
}

// lease leases a sandbox, the one of an id if that is there.
func (s *Server) lease(ctx context.Context, req *sdk.CallToolRequest, id string) (string, error) {
	a, err := s.call(ctx, req, s.operations["lease_sandbox"], input{"id": quote(id)})
	if err == nil {
		err = refusal(a)
	}
	if err != nil {
		return "", err
	}
	var leased struct{ ID string }
	if err := json.Unmarshal(a.body.Bytes(), &leased); err != nil {
		return "", err
	}
	return leased.ID, nil
}

// moved keeps in mind where a session works, and says what is new about it.
func (h *held) moved(id string) string {
	last := h.place
	h.place = id
	switch last {
	case id:
		return ""
	case "":
		return "[sandbox " + id + "]"
	}
	return "[sandbox " + id + ": " + lost
}

// ran is what an operation that runs something answers.
type ran struct {
	Session        string `json:"session_id"`
	Stdout, Stderr string
	ExitCode, Code int
	Cause          string
	Files          []struct{ Name string }
}

// say tells how a program ended, as a person reads it. The structured content
// has all that was printed, of which this has the two ends.
func (r *ran) say(note string) []sdk.Content {
	var b strings.Builder
	b.WriteString(ends(r.Stdout, inFile))
	part := func(text string) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteString("\n")
		}
		b.WriteString(text)
	}
	if r.Stderr != "" {
		part("[stderr]\n" + ends(r.Stderr, inFile))
	}
	if code := r.ExitCode + r.Code; code != 0 { // one of which is there
		part("[exit code " + strconv.Itoa(code) + "]")
	}
	if r.Cause != "" && r.Cause != "exit" {
		part("[ended by " + r.Cause + "]")
	}
	if len(r.Files) > 0 {
		part("[files: " + r.names() + "]")
	}
	if note != "" {
		part(note)
	}
	if b.Len() == 0 {
		b.WriteString("[it printed nothing]")
	}
	return words(b.String())
}

// names are those of the files that it made, as many as somebody reads.
func (r *ran) names() string {
	names := make([]string, 0, len(r.Files))
	for i, f := range r.Files {
		if i == maxNames {
			names = append(names, fmt.Sprintf("and %d more", len(r.Files)-i))
			break
		}
		names = append(names, inLine(f.Name))
	}
	return strings.Join(names, ", ")
}

// inLine is a file's name as a part of a line: one that would end the line, or
// look like another one's, is quoted.
func inLine(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) || strings.TrimSpace(name) != name {
		return strconv.Quote(name)
	}
	return name
}

// inFile is what to do about output of which the middle is left out.
const inFile = "; have it written to a file to read all of it"

// ends is a text without its middle, if it is more than a model can read.
func ends(text, advice string) string {
	if len(text) <= maxText {
		return text
	}
	head := string(wholeRunes([]byte(text[:maxText/2])))
	tail := text[len(text)-maxText/2:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	left := len(text) - len(head) - len(tail)
	return fmt.Sprintf("%s\n[%d bytes are left out here%s]\n%s", head, left, advice, tail)
}

// finish is the result of a run, with the images of it that there are.
func (s *Server) finish(a *answer, id, note string) (*sdk.CallToolResult, *ran, error) {
	if err := refusal(a); err != nil {
		return nil, nil, err
	}
	var out ran
	fields := input{}
	if a.over || json.Unmarshal(a.body.Bytes(), &out) != nil || json.Unmarshal(a.body.Bytes(), &fields) != nil {
		return nil, nil, errBroken
	}
	if id != "" {
		fields["id"] = quote(id)
	}
	return &sdk.CallToolResult{Content: out.say(note), StructuredContent: fields}, &out, nil
}

func (s *Server) runCommand(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	id, note, err := s.place(ctx, req, in)
	if err != nil {
		return nil, err
	}
	in["id"] = quote(id)
	ctx, said := recorded(ctx)
	a, err := s.call(ctx, req, s.operations["run_in_sandbox"], in)
	if err == nil {
		err = refusal(a)
	}
	if err != nil { // as of one whose time is over
		r := s.failed(err)
		if text := said.String(); text != "" {
			r.Content = append(r.Content, words("[what it had printed]\n"+strings.ToValidUTF8(text, "\uFFFD"))...)
		}
		if note != "" {
			r.Content = append(r.Content, words(note)...)
		}
		return r, nil
	}
	r, _, err := s.finish(a, id, note)
	return r, err
}

func (s *Server) runCode(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	named, err := stringIn(in, "session_id")
	if err != nil {
		return nil, err
	}
	id, note := named, ""
	if named == "" && !standsAlone(ctx) {
		if id, note, err = s.place(ctx, req, input{}); err != nil {
			return nil, err
		}
	}
	in["session_id"] = quote(id)
	a, err := s.call(ctx, req, s.operations["post_exec"], in)
	if err != nil {
		return nil, err
	}
	r, out, err := s.finish(a, "", note)
	if err != nil {
		return nil, err
	}
	switch {
	case id == "":
		r.Content = out.say("[sandbox " + out.Session + ": give it as session_id to go on there]")
	case id != out.Session:
		r.Content = out.say("[sandbox " + out.Session + ": " + lost)
	}
	r.Content = append(r.Content, s.images(ctx, req, a.body.Bytes(), maxResult-size(r))...)
	return r, nil
}

// lost is what is to be said of a sandbox that took another one's place.
const lost = "the one before has ended, and its files are gone]"

const (
	// maxText is how much of a text is shown at a time, in bytes: more than
	// some 20,000 words are more than a model can be told at once.
	maxText = 64 << 10
	// maxFile is how large an image or another file may be.
	maxFile = 4 << 20
	// maxNames bounds how many files are named.
	maxNames = 100
)

// files is a request for a sandbox's files.
func (s *Server) files(ctx context.Context, method, id string, query url.Values, body string) (*http.Request, error) {
	escaped, err := escape("id", id)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse("http://" + host + "/v1/sandbox/" + escaped + "/fs?" + query.Encode())
	if err != nil {
		return nil, err
	}
	return newRequest(ctx, method, u, "application/octet-stream", strings.NewReader(body))
}

// inFile is what the tools for files are called with.
func (s *Server) inFile(ctx context.Context, req *sdk.CallToolRequest, in input) (id, note string, query url.Values, err error) {
	query = url.Values{"verbatim": {"1"}} // a name is one, whatever is in it
	path, err := stringIn(in, "path")
	if err != nil {
		return "", "", nil, err
	}
	query.Set("path", path)
	offset, err := text("offset", in["offset"])
	if err != nil {
		return "", "", nil, err
	}
	if offset != "" {
		query.Set("offset", offset)
	}
	id, note, err = s.place(ctx, req, in)
	return id, note, query, err
}

func (s *Server) readFile(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	id, _, query, err := s.inFile(ctx, req, in)
	if err != nil {
		return nil, err
	}
	r, err := s.files(ctx, http.MethodGet, id, query, "")
	if err != nil {
		return nil, err
	}
	a, err := s.do(r, s.header(req), maxFile)
	if err == nil {
		err = refusal(a)
	}
	if err != nil {
		return nil, err
	}
	data := a.body.Bytes()
	if head := wholeRunes(data[:min(len(data), maxText)]); isText(head) && (a.over || len(head) < len(data)) {
		offset, _ := strconv.Atoi(query.Get("offset")) //nolint:errcheck // the server has read it
		note := fmt.Sprintf("\n[the file goes on; read it with offset %d]", offset+len(head))
		return &sdk.CallToolResult{Content: words(string(head) + note)}, nil
	}
	if a.over {
		return nil, inputError(fmt.Sprintf("the file has more than %d bytes and is no text; look at it with a command", maxFile))
	}
	return s.shown("sandbox://"+id+"/"+strings.TrimPrefix(query.Get("path"), "/"), data), nil
}

func (s *Server) listFiles(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	id, note, query, err := s.inFile(ctx, req, in)
	if err != nil {
		return nil, err
	}
	query.Set("stat", "list")
	r, err := s.files(ctx, http.MethodGet, id, query, "")
	if err != nil {
		return nil, err
	}
	a, err := s.do(r, s.header(req), maxAnswer)
	if err == nil {
		err = refusal(a)
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		Stats []struct {
			Name, Type, Target string
			Size               int64
		}
	}
	if err := json.Unmarshal(a.body.Bytes(), &list); err != nil || a.over {
		return nil, inputError("the directory has too many files to list; look at it with a command")
	}
	var b strings.Builder
	for _, f := range list.Stats {
		switch name := inLine(f.Name); f.Type {
		case "directory":
			fmt.Fprintf(&b, "%s/\n", name)
		case "link":
			fmt.Fprintf(&b, "%s -> %s\n", name, inLine(f.Target))
		default:
			fmt.Fprintf(&b, "%s (%d bytes)\n", name, f.Size)
		}
	}
	if len(list.Stats) == 0 {
		b.WriteString("[no files]\n")
	}
	return &sdk.CallToolResult{Content: words(ends(b.String(), "") + note), StructuredContent: json.RawMessage(a.body.Bytes())}, nil
}

func (s *Server) writeFile(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	text, err := stringIn(in, "content")
	if err != nil {
		return nil, err
	}
	id, note, query, err := s.inFile(ctx, req, in)
	if err != nil {
		return nil, err
	}
	r, err := s.files(ctx, http.MethodPost, id, query, text)
	if err != nil {
		return nil, err
	}
	a, err := s.do(r, s.header(req), maxAnswer)
	if err == nil {
		err = refusal(a)
	}
	if err != nil {
		return nil, err
	}
	var wrote struct {
		Path  string
		Bytes int64
	}
	if err := json.Unmarshal(a.body.Bytes(), &wrote); err != nil {
		return nil, errBroken
	}
	said := strings.TrimSpace(fmt.Sprintf("wrote %d bytes to %s\n%s", wrote.Bytes, wrote.Path, note))
	return &sdk.CallToolResult{Content: words(said), StructuredContent: json.RawMessage(a.body.Bytes())}, nil
}
