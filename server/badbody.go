package server

import (
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
	return field + ": want " + kindOf(wrong.Type) + ", and it is " + valueOf(wrong.Value)
}

// kindOf is what JSON has a type as.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number, not too large"
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
