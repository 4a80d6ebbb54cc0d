package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

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

// lost is what is to be said of a sandbox that took another one's place.
const lost = "the one before has ended, and its files are gone]"
