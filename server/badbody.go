package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/hanzoai/sandbox/internal/problem"
)

// badBody answers for a body that could not be decoded.
func (s *server) badBody(w http.ResponseWriter, r *http.Request, err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); !ok {
		err = problem.New(problem.BadRequest, "invalid body: "+bodyFault(err))
	}
	s.fail(w, r, err)
}

// bodyFault says what is wrong with a body as its sender knows it, who has
// never heard of types of Go.
func bodyFault(err error) string {
	if errors.Is(err, io.EOF) {
		return "it is missing, and a JSON object is wanted"
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it is no JSON"
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "can't decode JSON body: ")
	}
	field := wrong.Field
	if field == "" {
		field = "it"
	}
	kind := cmp.Or(kinds[wrong.Type.Kind()], "a whole number, not too large")
	return field + ": want " + kind + ", and it is " + valueOf(wrong.Value)
}

// kinds are what JSON has types as.
var kinds = map[reflect.Kind]string{
	reflect.Bool: "true or false", reflect.String: "a string", reflect.Float32: "a number", reflect.Float64: "a number",
	reflect.Slice: "an array", reflect.Array: "an array", reflect.Struct: "an object", reflect.Map: "an object",
}

// valueOf is what encoding/json says that a value is, with an article.
func valueOf(value string) string {
	switch value {
	case "string":
		return "a string"
	case "array":
		return "an array"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	return value // such as number 1.5
}
