package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// An operation is one of the document's.
type operation struct {
	Name string // as tools have it
	ID   string // the document's
	Tool string // the tool that has it; "" for none

	Method, Path string
	Summary      string
	Description  string

	Parameters []string       // in the path
	Query      []string       // in the query
	Body       bool           // takes a JSON body
	Properties map[string]any // schemas of path, query and body together
	Required   []string
	Extension  bool
}

// readOnly reports whether it changes nothing.
func (o *operation) readOnly() bool {
	return o.Method == http.MethodGet || o.ID == "read_sandbox_file"
}

// destructive reports whether it can take away what there is.
func (o *operation) destructive() bool {
	return !o.readOnly() && o.ID != "lease_sandbox" && o.ID != "post_sandbox" &&
		!strings.HasSuffix(o.Path, "/resume") && !strings.HasSuffix(o.Path, "/renew") && !strings.HasSuffix(o.Path, "/ticket")
}

// schema is the input's.
func (o *operation) schema() map[string]any { return object(o.Properties, o.Required) }

func object(properties map[string]any, required []string) map[string]any {
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// A document is openapi.yaml in JSON.
type document struct {
	Paths map[string]map[string]json.RawMessage
	refs  map[string]any // the whole, for references
}

type documented struct {
	OperationID string
	Tags        []string
	Summary     string
	Description string
	Parameters  []json.RawMessage
	Extension   bool `json:"x-extension"`
	RequestBody struct {
		Content map[string]struct{ Schema any }
	}
}

// read returns the operations of a document.
func read(text []byte) ([]*operation, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d.refs); err != nil {
		return nil, err
	}
	var list []*operation
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		item := d.Paths[path]
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			text, ok := item[strings.ToLower(method)]
			if !ok {
				continue
			}
			op, err := d.operation(method, path, text, item["parameters"])
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			list = append(list, op)
		}
	}
	return list, nil
}

func (d *document) operation(method, path string, text, shared json.RawMessage) (*operation, error) {
	var in documented
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	op := &operation{
		Name: nameOf(method, path, in.OperationID), ID: in.OperationID, Tool: toolOf(method, in.Tags),
		Method: method, Path: path, Summary: in.Summary, Description: in.Description,
		Properties: map[string]any{}, Extension: in.Extension,
	}
	if media, ok := in.RequestBody.Content["application/json"]; ok {
		op.Body = true
		if err := d.body(op, media.Schema); err != nil {
			return nil, err
		}
	}
	parameters := in.Parameters
	if shared != nil {
		var more []json.RawMessage
		if err := json.Unmarshal(shared, &more); err != nil {
			return nil, err
		}
		parameters = append(more, parameters...)
	}
	for _, p := range parameters {
		if err := d.parameter(op, p); err != nil {
			return nil, err
		}
	}
	slices.Sort(op.Required)
	op.Required = slices.Compact(op.Required)
	return op, nil
}

// toolOf is the tool that has an operation: those whose answers are values,
// and the files of a session, of which an agent is to see something.
func toolOf(method string, tags []string) string {
	switch {
	case slices.Contains(tags, "sandbox"):
		return "sandbox"
	case slices.Contains(tags, "exec"), slices.Contains(tags, "exec-raw") && method == http.MethodGet:
		return "exec"
	}
	return ""
}

func (d *document) body(op *operation, schema any) error {
	resolved, err := d.resolve(schema)
	if err != nil {
		return err
	}
	m, ok := resolved.(map[string]any)
	if !ok {
		return fmt.Errorf("a body's schema is %T", resolved)
	}
	properties, _ := m["properties"].(map[string]any) //nolint:errcheck // none is fine
	maps.Copy(op.Properties, properties)
	// Events are for who reads them as they come; here there is progress.
	delete(op.Properties, "stream")
	required, _ := m["required"].([]any) //nolint:errcheck // none is fine
	for _, name := range required {
		if name, ok := name.(string); ok {
			op.Required = append(op.Required, name)
		}
	}
	return nil
}

func (d *document) parameter(op *operation, text json.RawMessage) error {
	var raw any
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	if m, ok := raw.(map[string]any); ok && m["$ref"] != nil {
		target, err := d.target(m["$ref"])
		if err != nil {
			return err
		}
		if text, err = json.Marshal(target); err != nil {
			return err
		}
	}
	var p struct {
		Name, In, Description string
		Schema, Example       any
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	schema, err := d.resolve(p.Schema)
	if err != nil {
		return err
	}
	m, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("parameter %s has no schema", p.Name)
	}
	m["description"] = strings.TrimSpace(p.Description)
	if p.Example != nil {
		m["examples"] = []any{p.Example}
	}
	op.Properties[p.Name] = m
	switch p.In {
	case "path":
		op.Parameters = append(op.Parameters, p.Name)
		op.Required = append(op.Required, p.Name)
	case "query":
		op.Query = append(op.Query, p.Name)
	}
	return nil
}

// target is what a reference is to.
func (d *document) target(ref any) (any, error) {
	text, _ := ref.(string) //nolint:errcheck // the error is below
	rest, ok := strings.CutPrefix(text, "#/")
	var at any = d.refs
	for name := range strings.SplitSeq(rest, "/") {
		m, isMap := at.(map[string]any)
		if !isMap || m[name] == nil {
			ok = false
			break
		}
		at = m[name]
	}
	if !ok {
		return nil, fmt.Errorf("reference %v leads nowhere", ref)
	}
	return at, nil
}

// resolve makes a JSON schema of one of OpenAPI 3.0: references are replaced
// by what they are to, and the document's own remarks left out.
func (d *document) resolve(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if ref := v["$ref"]; ref != nil {
			target, err := d.target(ref)
			if err != nil {
				return nil, err
			}
			return d.resolve(target)
		}
		return d.resolveMap(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = d.resolve(v[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

func (d *document) resolveMap(m map[string]any) (any, error) {
	out := map[string]any{}
	for key, value := range m {
		switch {
		case key == "example":
			out["examples"] = []any{value}
			continue
		case key == "format" && value == "byte":
			out["contentEncoding"] = "base64"
			continue
		case strings.HasPrefix(key, "x-"):
			continue
		}
		resolve := d.resolve
		if key == "properties" {
			resolve = d.resolveEach // whose keys are names, and no keywords
		}
		var err error
		if out[key], err = resolve(value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *document) resolveEach(v any) (any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("properties are %T", v)
	}
	out := map[string]any{}
	for name, schema := range m {
		var err error
		if out[name], err = d.resolve(schema); err != nil {
			return nil, err
		}
	}
	return out, nil
}
