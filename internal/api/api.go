// Package api is the server's side of openapi.yaml: models, routing and the
// strict interface, generated, and the document itself.
//
// Operations whose bodies are bytes, pages or sockets are in the document, and
// not here: their handlers are the server's own.
package api

import _ "embed"

//go:generate go tool oapi-codegen -config oapi-codegen.yaml ../../openapi.yaml
//go:generate go run ./document ../../openapi.yaml openapi.yaml openapi.json

// YAML and JSON are the document.
var (
	//go:embed openapi.yaml
	YAML []byte
	//go:embed openapi.json
	JSON []byte
)
