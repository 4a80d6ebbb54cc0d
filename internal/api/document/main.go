// Command document checks openapi.yaml and writes it to where it can be
// embedded, as it is and in JSON.
//
//	document SOURCE YAML JSON
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: document SOURCE YAML JSON")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "document:", err)
		os.Exit(1)
	}
}

func run(source, toYAML, toJSON string) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return err
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil { //nolint:forbidigo // a program of its own
		return err
	}
	compact, err := doc.MarshalJSON()
	if err != nil {
		return err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, compact, "", " "); err != nil {
		return err
	}
	indented.WriteByte('\n')
	if err := os.WriteFile(toYAML, text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(toJSON, indented.Bytes(), 0o644)
}
