package mcp

import (
	"net/http"
	"strings"
)

// nameOf is what tools call an operation. One whose id does not begin with its
// method has been named by somebody, and keeps that; the others are named as a
// person would: list_sandboxes, pause_sandbox, list_sandbox_ports.
func nameOf(method, path, id string) string {
	if !strings.HasPrefix(id, strings.ToLower(method)+"_") {
		return id
	}
	var words []string
	ofOne := false
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/v1/"), "/") {
		if strings.HasPrefix(part, "{") {
			ofOne = true
			continue
		}
		words = append(words, part)
	}
	resource, rest := words[0], words[1:]
	switch {
	case len(rest) == 0 && method == http.MethodGet && !ofOne:
		return "list_" + plural(resource)
	case len(rest) == 0 && method == http.MethodGet:
		return id // get_… is another's id
	case len(rest) == 0 && method == http.MethodPost:
		return "create_" + resource
	case len(rest) == 0:
		return "delete_" + resource
	case method == http.MethodGet && len(rest) == 1 && strings.HasSuffix(rest[0], "s"):
		return "list_" + resource + "_" + rest[0]
	case method == http.MethodGet:
		return "get_" + strings.Join(rest, "_")
	case method == http.MethodPost && len(rest) == 1:
		return rest[0] + "_" + resource
	}
	return "create_" + resource + "_" + strings.Join(rest, "_")
}

func plural(noun string) string {
	if strings.HasSuffix(noun, "x") {
		return noun + "es"
	}
	return noun + "s"
}
