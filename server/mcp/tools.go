package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxAnswer bounds an answer, which is held in memory. What a command can
	// say, 1 MiB by each way, is at most six times that as JSON.
	maxAnswer = 13 << 20
	// maxResult bounds what a result is as a message. Clients stop reading at
	// 16 MiB, and have no session after that.
	maxResult = 15 << 20
)

// addOperations adds the tools that have the operations, and describe.
func (s *Server) addOperations(list []*operation) {
	byTool := map[string][]*operation{}
	for _, op := range list {
		if op.Tool == "" {
			continue
		}
		s.operations[op.Name], s.operations[op.ID] = op, op
		byTool[op.Tool] = append(byTool[op.Tool], op)
	}
	closed := false
	s.sdk.AddTool(&sdk.Tool{
		Name: describeTool, Title: "Describe an operation",
		Description: "Tells what an operation of the tools sandbox and exec does and which input it takes.",
		InputSchema: object(map[string]any{
			"op": map[string]any{"type": "string", "description": "The operation's name.", "examples": []any{"list_sandboxes"}},
		}, []string{"op"}),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed},
	}, s.describe)
	for tool, about := range map[string]string{
		"sandbox": "Leases sandboxes, runs commands in them, and moves files in and out.",
		"exec":    "Runs snippets of code in sessions, and reads the files that they make.",
	} {
		s.sdk.AddTool(&sdk.Tool{
			Name: tool, Description: about + listing(byTool[tool]),
			InputSchema: object(map[string]any{
				"op":    map[string]any{"type": "string", "description": "The operation.", "enum": published(byTool[tool])},
				"input": map[string]any{"type": "object", "description": "What the operation takes; describe tells it."},
			}, []string{"op"}),
			Annotations: &sdk.ToolAnnotations{OpenWorldHint: &closed},
		}, s.operate)
	}
}

// published are the names of the operations that every server of this API has.
func published(list []*operation) []string {
	var names []string
	for _, op := range list {
		if !op.Extension {
			names = append(names, op.Name)
		}
	}
	slices.Sort(names)
	return names
}

// listing tells the operations in a line each.
func listing(list []*operation) string {
	lines := make([]string, len(list))
	for i, op := range list {
		lines[i] = "\n" + op.Name + ": " + op.Summary + " (" + strings.Join(op.inputs(), ", ") + ")"
	}
	slices.Sort(lines)
	return " Operations, with what they take; * is needed:" + strings.Join(lines, "")
}

func (o *operation) inputs() []string {
	var names []string
	for name := range o.Properties {
		if slices.Contains(o.Required, name) {
			name += "*"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const describeTool = "describe"

// A description is what describe tells.
type description struct {
	Name        string         `json:"name"`
	OperationID string         `json:"operationId"`
	Tool        string         `json:"tool"`
	Description string         `json:"description"`
	InputSchema map[string]any `json:"inputSchema"`
	Annotations struct {
		ReadOnly    bool `json:"readOnlyHint"`
		Destructive bool `json:"destructiveHint"`
	} `json:"annotations"`
}

func (s *Server) describe(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	op, err := s.operation(req.Params.Arguments)
	if op == nil {
		return s.orFailed(err)
	}
	d := description{
		Name: op.Name, OperationID: op.ID, Tool: op.Tool, InputSchema: op.schema(),
		Description: strings.TrimSpace(op.Summary + ".\n\n" + op.Description),
	}
	d.Annotations.ReadOnly, d.Annotations.Destructive = op.readOnly(), op.destructive()
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{Content: words(string(text)), StructuredContent: json.RawMessage(text)}, nil
}

// orFailed has an error of the protocol be one, and any other a result.
func (s *Server) orFailed(err error) (*sdk.CallToolResult, error) {
	if wire, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // as it was made
		return nil, wire
	}
	return s.failed(err), nil
}

// operation is the operation that the arguments name.
func (s *Server) operation(raw json.RawMessage) (*operation, error) {
	in, err := arguments(raw)
	if err != nil {
		return nil, err
	}
	name, ok := aString(in["op"])
	if !ok || name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: op is needed, the name of an operation"}
	}
	op := s.operations[name]
	if op == nil {
		return nil, inputError(fmt.Sprintf("there is no operation %.100q: have %s", name, strings.Join(s.names(), ", ")))
	}
	return op, nil
}

// names are the operations' names.
func (s *Server) names() []string {
	var names []string
	for name, op := range s.operations {
		if name == op.Name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// operate is the tools sandbox and exec. An operation of the other one is
// carried out too: which tool has it is no reason to refuse.
func (s *Server) operate(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	op, err := s.operation(req.Params.Arguments)
	if op == nil {
		return s.orFailed(err)
	}
	args, err := arguments(req.Params.Arguments)
	if err != nil {
		return s.failed(err), nil
	}
	if nested, ok := args["input"]; ok {
		return s.perform(ctx, req, op, nested)
	}
	delete(args, "op") // what stands beside it is meant as the input
	flat, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return s.perform(ctx, req, op, flat)
}

// byName has an operation's name be a tool's, without the list being long.
func (s *Server) byName(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (result sdk.Result, err error) {
		if session, ok := r.GetSession().(*sdk.ServerSession); ok && method == "initialize" && session.ID() != "" {
			s.sessions.hold(ctx, session)
		}
		req, ok := r.(*sdk.CallToolRequest)
		if !ok || method != "tools/call" {
			return next(ctx, method, r)
		}
		if !isObject(req.Params.Arguments) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: want an object"}
		}
		ctx, leave := s.sessions.within(ctx, req.Session)
		defer leave()
		defer func() {
			if v := recover(); v != nil {
				result, err = s.failed(fmt.Errorf("panic: %v\n%s", v, debug.Stack())), nil
			}
		}()
		if op := s.operations[req.Params.Name]; op != nil {
			return next(ctx, method, named(req, op))
		}
		return next(ctx, method, r)
	}
}

// named is the call of an operation's name as that of the tool that has it, of
// which the SDK knows what its result needs in which version of the protocol.
func named(req *sdk.CallToolRequest, op *operation) *sdk.CallToolRequest {
	in := input{"op": quote(op.Name)}
	if len(req.Params.Arguments) > 0 {
		in["input"] = req.Params.Arguments
	}
	params, call := *req.Params, *req
	params.Name = op.Tool
	var err error
	if params.Arguments, err = json.Marshal(in); err != nil {
		panic(err) // of what has been JSON
	}
	call.Params = &params
	return &call
}

// perform carries out an operation.
func (s *Server) perform(ctx context.Context, req *sdk.CallToolRequest, op *operation, raw json.RawMessage) (*sdk.CallToolResult, error) {
	in, err := arguments(raw)
	if err != nil {
		return s.failed(inputError("input: " + err.Error())), nil
	}
	a, err := s.call(ctx, req, op, in)
	if err != nil {
		return s.failed(err), nil
	}
	switch {
	case op.ID == "get_exec_download" && a.ok() && !a.over:
		return s.shown(fileURI(in), a.body.Bytes()), nil
	case op.ID == "post_exec" && a.ok():
		r := s.result(a)
		r.Content = append(r.Content, s.images(ctx, req, a.body.Bytes(), maxResult-size(r))...)
		return r, nil
	}
	return s.result(a), nil
}

func fileURI(in input) string {
	session, _ := stringIn(in, "session_id") //nolint:errcheck // it has been an address before
	file, _ := stringIn(in, "fileId")        //nolint:errcheck // as above
	return "sandbox://" + session + "/" + file
}

// call has the API carry out an operation, and its caller follow.
func (s *Server) call(ctx context.Context, req *sdk.CallToolRequest, op *operation, in input) (*answer, error) {
	ctx, done := follow(ctx, req)
	defer done()
	r, err := op.request(ctx, in)
	if err != nil {
		return nil, err
	}
	return s.do(r, s.header(req), maxAnswer)
}
