package api_test

import (
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/api"
)

func TestDocument(t *testing.T) {
	is := is.New(t)
	source, err := os.ReadFile("../../openapi.yaml")
	is.NoErr(err)
	is.Equal(string(api.YAML), string(source)) // run go generate ./...
	for name, text := range map[string][]byte{"yaml": api.YAML, "json": api.JSON} {
		doc, err := openapi3.NewLoader().LoadFromData(text)
		is.NoErr(err)
		if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// published are the operations that clients elsewhere are generated from.
var published = []string{
	"get_sandbox", "post_sandbox", "get_sandbox_by_id", "delete_sandbox_by_id", "post_sandbox_by_id_exec",
	"get_sandbox_by_id_fs", "post_sandbox_by_id_fs", "post_sandbox_by_id_pause", "post_sandbox_by_id_resume",
	"get_sandbox_by_id_ports", "post_sandbox_by_id_preview", "post_sandbox_by_id_screen_ticket",
	"get_sandbox_by_id_screen", "get_sandbox_by_id_screen_ws", "post_sandbox_by_id_terminal_ticket",
	"get_sandbox_by_id_terminal", "get_sandbox_by_id_terminal_ws", "end_sandbox", "lease_sandbox",
	"read_sandbox_file", "run_in_sandbox", "stop_run", "write_sandbox_file",
	"post_exec", "post_exec_upload", "get_exec_files_by_sid", "post_exec_programmatic",
}

func TestPublishedOperations(t *testing.T) {
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(api.YAML)
	is.NoErr(err)
	have := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			have[op.OperationID] = true
			where := method + " " + path
			if op.Summary == "" {
				t.Errorf("%s has no summary", where)
			}
			if strings.HasSuffix(op.Tags[0], "-raw") && !strings.Contains(op.Description, "ntyped") && op.Extensions["x-extension"] == nil {
				t.Errorf("%s does not say why it is untyped", where)
			}
		}
	}
	for _, id := range published {
		if !have[id] {
			t.Errorf("operation %s is missing", id)
		}
	}
}

// TestFields has every field and parameter say what it is.
func TestFields(t *testing.T) {
	is := is.New(t)
	doc, err := openapi3.NewLoader().LoadFromData(api.YAML)
	is.NoErr(err)
	for name, schema := range doc.Components.Schemas {
		for field, property := range schema.Value.Properties {
			v := property.Value
			if v.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
			simple := !v.Type.Is("object") && !v.Type.Is("array") && v.Format != "binary"
			if simple && v.Example == nil {
				t.Errorf("%s.%s has no example", name, field)
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for _, p := range append(op.Parameters, item.Parameters...) {
				if p.Value.Description == "" || p.Value.Example == nil {
					t.Errorf("%s %s: parameter %s lacks a description or an example", method, path, p.Value.Name)
				}
			}
		}
	}
}
