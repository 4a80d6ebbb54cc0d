package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// An inputError says what is wrong with a call's input.
type inputError string

func (e inputError) Error() string { return string(e) }

type input = map[string]json.RawMessage

// request is the request that a call of an operation is.
func (o *operation) request(ctx context.Context, in input) (*http.Request, error) {
	u, err := o.address(in)
	if err != nil {
		return nil, err
	}
	var body []byte
	if o.Body {
		rest := input{}
		for name, value := range in {
			if !slices.Contains(o.Parameters, name) && !slices.Contains(o.Query, name) && name != "stream" {
				rest[name] = value
			}
		}
		if body, err = json.Marshal(rest); err != nil {
			return nil, inputError("input: " + err.Error())
		}
	}
	return newRequest(ctx, o.Method, u, "application/json", bytes.NewReader(body))
}

func newRequest(ctx context.Context, method string, u *url.URL, kind string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if r.ContentLength != 0 {
		r.Header.Set("Content-Type", kind)
	}
	r.RequestURI = u.RequestURI()
	return r, nil
}

// address puts the input into the operation's path and query.
func (o *operation) address(in input) (*url.URL, error) {
	path := o.Path
	for _, name := range o.Parameters {
		value, err := stringIn(in, name)
		if err != nil {
			return nil, err
		}
		if value == "" {
			return nil, inputError(name + " is needed")
		}
		escaped, err := escape(name, value)
		if err != nil {
			return nil, err
		}
		path = strings.Replace(path, "{"+name+"}", escaped, 1)
	}
	query := url.Values{}
	for _, name := range o.Query {
		value, err := text(name, in[name])
		if err != nil {
			return nil, err
		}
		if value != "" {
			query.Set(name, value)
		}
	}
	return url.Parse("http://" + host + path + "?" + query.Encode())
}

// host stands where requests within the process have one.
const host = "localhost"

// escape keeps a value from being more of an address than its place: only the
// name of a file may have slashes.
func escape(name, value string) (string, error) {
	parts := []string{value}
	if name == "fileId" {
		parts = strings.Split(value, "/")
	}
	for i, part := range parts {
		if part == "" || part == "." || part == ".." {
			return "", inputError(fmt.Sprintf("%s: %.100q cannot be", name, value))
		}
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/"), nil
}

// stringIn is a field that is a string, "" without it.
func stringIn(in input, name string) (string, error) {
	if in[name] == nil {
		return "", nil
	}
	value, ok := aString(in[name])
	if !ok {
		return "", inputError(name + ": want a string")
	}
	return value, nil
}

// text is a value as an address has it. True is 1, as the document has
// switches.
func text(name string, value json.RawMessage) (string, error) {
	switch v := string(value); v {
	case "", "false":
		return "", nil
	case "true":
		return "1", nil
	}
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s, nil
	}
	var n json.Number
	if json.Unmarshal(value, &n) == nil {
		return n.String(), nil
	}
	return "", inputError(name + ": want a string")
}

// An answer is what an operation answers, up to a limit.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	limit  int
	over   bool // there was more
}

var errOver = errors.New("the answer is too large")

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if room := a.limit - a.body.Len(); len(p) > room {
		a.over = true
		a.body.Write(p[:room])
		return room, errOver
	}
	return a.body.Write(p)
}

// Flush is there for answers that are streamed.
func (a *answer) Flush() {}

func (a *answer) ok() bool { return a.status/100 == 2 }

// errBroken is of an answer that broke in the middle.
var errBroken = errors.New("the answer broke off in the middle")

// do has the operations answer a request, with up to limit bytes.
func (s *Server) do(r *http.Request, header http.Header, limit int) (a *answer, err error) {
	a = &answer{header: http.Header{}, limit: limit}
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		if values := header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	defer func() {
		switch v := recover(); {
		case v == nil:
		case v != http.ErrAbortHandler: //nolint:errorlint // as net/http compares it
			panic(v)
		case !a.over:
			err = errBroken
		}
	}()
	s.cfg.API.ServeHTTP(a, r)
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a, nil
}
