package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A message is what is looked at of one before anything else.
type message struct {
	ID     json.RawMessage // none of what wants no answer
	Method string          // none of an answer
	Tool   string          // of a call of one
}

// known are the methods that there are, without those of notifications.
var known = []string{
	"initialize", "ping", "server/discover", "tools/list", "tools/call", "logging/setLevel", "completion/complete",
	"prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list", "resources/subscribe",
	"resources/unsubscribe", "subscriptions/listen",
}

// maxBatch bounds how many messages come at once, which old versions of the
// protocol allow: a short one can have a long answer.
const maxBatch = 32

// maxID is the largest number that an id can be. Beyond, clients and servers
// that have numbers as JavaScript has them differ on which one it is.
const maxID = 1 << 53

// A badMessage is what is wrong with one, and its id if that is known.
type badMessage struct {
	id   json.RawMessage
	code int64
	text string
}

func (m *badMessage) wire() map[string]any { return map[string]any{"code": m.code, "message": m.text} }

func tooLong(most int64) string {
	return "the message exceeds " + strconv.FormatInt(most, 10) + " bytes"
}

func invalid(id json.RawMessage, text string) *badMessage {
	return &badMessage{id, jsonrpc.CodeInvalidRequest, text}
}

// look reads what messages there are: one, or in old versions several. It
// takes names as the SDK does, by their very letters, so that both see the
// same message.
func look(body []byte) ([]message, *badMessage) {
	var batch []json.RawMessage
	switch body = bytes.TrimSpace(body); {
	case !json.Valid(body):
		return nil, &badMessage{nil, jsonrpc.CodeParseError, "this is no JSON"}
	case body[0] != '[':
		batch = []json.RawMessage{body}
	case json.Unmarshal(body, &batch) != nil || len(batch) == 0:
		return nil, invalid(nil, "there is no message")
	case len(batch) > maxBatch:
		return nil, invalid(nil, fmt.Sprintf("at most %d messages can come at once", maxBatch))
	}
	list := make([]message, len(batch))
	for i, text := range batch {
		var bad *badMessage
		if list[i], bad = lookAt(text); bad != nil {
			return nil, bad
		}
	}
	return list, nil
}

func lookAt(text json.RawMessage) (m message, bad *badMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		return m, invalid(nil, "a message is an object")
	}
	id, hasID := fields["id"]
	if hasID && !isID(id) {
		return m, invalid(nil, "id: want a string, or an integer that is exact in JavaScript")
	}
	m.ID = id
	if version, ok := aString(fields["jsonrpc"]); !ok || version != "2.0" {
		return m, invalid(id, `jsonrpc: want "2.0"`)
	}
	method, hasMethod := fields["method"]
	if !hasMethod {
		if !hasID || fields["result"] == nil && fields["error"] == nil {
			return m, invalid(id, "method is needed")
		}
		return m, nil
	}
	var ok bool
	if m.Method, ok = aString(method); !ok || m.Method == "" {
		return m, invalid(id, "method: want a string")
	}
	m.Tool, bad = lookAtParams(m, fields["params"])
	return m, bad
}

// lookAtParams returns the tool that a call is of.
func lookAtParams(m message, text json.RawMessage) (tool string, bad *badMessage) {
	var params map[string]json.RawMessage
	if text != nil && json.Unmarshal(text, &params) != nil {
		return "", &badMessage{m.ID, jsonrpc.CodeInvalidParams, "params: want an object"}
	}
	if m.Method != "tools/call" {
		return "", nil
	}
	tool, ok := aString(params["name"])
	if !ok || tool == "" {
		return "", &badMessage{m.ID, jsonrpc.CodeInvalidParams, "params: name is needed, that of a tool"}
	}
	return tool, nil
}

func isID(text json.RawMessage) bool {
	if _, ok := aString(text); ok {
		return true
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return err == nil && -maxID <= n && n <= maxID
}

func aString(text json.RawMessage) (string, bool) {
	if len(text) == 0 || text[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(text, &s)
	return s, err == nil
}
