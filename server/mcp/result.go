package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hanzoai/sandbox/internal/problem"
)

// failed is the result of a call that was refused or went wrong. What is not
// for callers has been logged by the operation.
func (s *Server) failed(err error) *sdk.CallToolResult {
	sentence := err.Error()
	var details any
	refused, known := errors.AsType[*problem.Error](err)
	_, input := errors.AsType[inputError](err)
	switch {
	case known:
		details = refused.Details
	case !input && !errors.Is(err, errBroken):
		s.log.Error("a tool failed", "error", err)
		sentence = "the server failed; its log says why"
	}
	return &sdk.CallToolResult{IsError: true, Content: words(sentence), StructuredContent: details}
}

// refusal is the error that an answer is, or nil.
func refusal(a *answer) error {
	if a.ok() {
		return nil
	}
	return problem.Decode(a.status, a.body.Bytes())
}

func words(text string) []sdk.Content { return []sdk.Content{&sdk.TextContent{Text: text}} }

// result is an answer as a tool's.
func (s *Server) result(a *answer) *sdk.CallToolResult {
	if err := refusal(a); err != nil {
		return s.failed(err)
	}
	if a.status == http.StatusNoContent || a.body.Len() == 0 {
		return &sdk.CallToolResult{Content: words("null")}
	}
	if a.over {
		return s.failed(inputError(fmt.Sprintf("the answer has more than %d bytes; ask for less of it at a time", a.limit)))
	}
	body := bytes.TrimSpace(a.body.Bytes())
	r := &sdk.CallToolResult{Content: words(string(body))}
	switch {
	case len(body) > 0 && body[0] == '{':
		r.StructuredContent = json.RawMessage(body)
	case len(body) > 0 && body[0] == '[': // structured content is an object
		r.StructuredContent = input{"result": json.RawMessage(body)}
	}
	if size(r) > maxResult {
		r.Content = words(fmt.Sprintf("[the answer has %d bytes, and is in the structured content alone]", len(body)))
	}
	return fitting(r)
}

// fitting has a result that is too large for a message say so.
func fitting(r *sdk.CallToolResult) *sdk.CallToolResult {
	if n := size(r); n > maxResult {
		return &sdk.CallToolResult{IsError: true, Content: words(fmt.Sprintf(
			"the answer would be a message of %d bytes, and %d is the most; ask for less of it at a time", n, maxResult))}
	}
	return r
}

// shown is a file as a result.
func (s *Server) shown(uri string, data []byte) *sdk.CallToolResult {
	return fitting(&sdk.CallToolResult{Content: []sdk.Content{content(uri, data)}})
}

// frameSize is what a message has around each part of a result, at most.
const frameSize = 4 << 10

// size is how large a result is in a message, at most.
func size(r *sdk.CallToolResult) int {
	n := frameSize
	for _, c := range r.Content {
		n += frameSize
		switch c := c.(type) {
		case *sdk.TextContent:
			n += quotedLen(c.Text)
		case *sdk.ImageContent:
			n += base64.StdEncoding.EncodedLen(len(c.Data))
		case *sdk.EmbeddedResource:
			n += base64.StdEncoding.EncodedLen(len(c.Resource.Blob)) + quotedLen(c.Resource.URI)
		}
	}
	switch v := r.StructuredContent.(type) {
	case json.RawMessage:
		n += rawLen(v)
	case input:
		for name, field := range v {
			n += quotedLen(name) + rawLen(field) + frameSize
		}
	}
	return n
}

// quotedLen is how long a text is as a string of JSON, at most.
func quotedLen(text string) int {
	n := 0
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			n += 2
		case c < ' ', c == '<', c == '>', c == '&', c == utf8.RuneError, c == '\u2028', c == '\u2029':
			n += 6
		default:
			n += utf8.RuneLen(c)
		}
	}
	return n
}

// rawLen is how long JSON is that is written anew, at most.
func rawLen(raw json.RawMessage) int {
	n := len(raw)
	for _, c := range raw {
		if c == '<' || c == '>' || c == '&' {
			n += 5
		}
	}
	return n
}

// imageKinds are the images that go along as such.
var imageKinds = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// kindOf is the media type that bytes have, whatever their name.
func kindOf(data []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	return kind
}

// isText reports whether bytes are to be shown as text.
func isText(data []byte) bool { return utf8.Valid(data) && !bytes.ContainsRune(data, 0) }

// content is a file as content: text, an image, or bytes.
func content(uri string, data []byte) sdk.Content {
	kind := kindOf(data)
	switch {
	case imageKinds[kind]:
		return &sdk.ImageContent{MIMEType: kind, Data: data}
	case isText(data):
		return &sdk.TextContent{Text: string(data)}
	}
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: kind, Blob: data}}
}

// wholeRunes is data without a rune that its end cuts.
func wholeRunes(data []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if c := data[len(data)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(data[len(data)-i:]) {
				return data[:len(data)-i]
			}
			break
		}
	}
	return data
}
