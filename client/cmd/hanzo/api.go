package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/hanzoai/sandbox/client"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// A call is an operation with its input.
type call struct {
	method string
	path   []string // its parts, as they are before escaping
	query  url.Values
	kind   string // the body's media type; "" is JSON
	body   io.Reader
}

// value has v be a call's body. JSON has no bytes that are no UTF-8: they would
// arrive as others.
func (c call) value(v any) (call, error) {
	b, err := json.Marshal(v)
	if bytes.Contains(bytes.ReplaceAll(b, []byte(`\\`), nil), []byte(`\ufffd`)) {
		return c, usage("some of it is no UTF-8, which is all that this operation takes")
	}
	c.body = bytes.NewReader(b)
	return c, err
}

// httpClient follows no redirects: a key is for the server that it was stored
// for.
var httpClient = &http.Client{
	Transport:     http.DefaultTransport,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// do sends a call. The answer is a success, and its body to be closed.
func (a *app) do(c call) (*http.Response, error) {
	key, err := a.key()
	if err != nil {
		return nil, err
	}
	parts := make([]string, len(c.path))
	for i, part := range c.path {
		if part == "" || part == "." || part == ".." {
			return nil, usage("%q is no id or name", part)
		}
		parts[i] = url.PathEscape(part)
	}
	base, err := a.base()
	if err != nil {
		return nil, err
	}
	address := base + "/" + strings.Join(parts, "/")
	if len(c.query) > 0 {
		address += "?" + c.query.Encode()
	}
	r, err := http.NewRequestWithContext(a.ctx, c.method, address, c.body)
	if err != nil {
		return nil, err
	}
	if c.body != nil {
		if c.kind == "" {
			c.kind = "application/json"
		}
		r.Header.Set("Content-Type", c.kind)
		if c.kind != "application/json" { // what is refused is to be refused before a stream is sent
			r.Header.Set("Expect", "100-continue")
		}
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := httpClient.Do(r)
	if err != nil {
		return nil, a.explain(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	return nil, a.explain(problem.Received(resp))
}

// base is the server's address, checked.
func (a *app) base() (string, error) {
	if a.BaseURL == "" { // as in a variable that is empty
		a.BaseURL = defaultBaseURL
	}
	u, err := url.Parse(a.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(a.BaseURL, "?#") {
		return "", usage("%q is no address of a server: want http(s)://host in HANZO_BASE_URL or --base-url", a.BaseURL)
	}
	return strings.TrimRight(a.BaseURL, "/"), nil
}

// remote is the server as a Driver.
func (a *app) remote() (*client.Remote, error) {
	base, err := a.base()
	if err != nil {
		return nil, err
	}
	key, err := a.key()
	if err != nil {
		return nil, err
	}
	r, err := client.New(base, client.Config{Key: key})
	if err != nil {
		return nil, usage("%w", err)
	}
	return r, nil
}

func (a *app) sandbox(id string) (*client.Remote, *sandbox.Sandbox, error) {
	if id == "" {
		return nil, nil, usage("which sandbox? Its id is empty")
	}
	r, err := a.remote()
	if err != nil {
		return nil, nil, err
	}
	return r, sandbox.Handle(r, id), nil
}

// explain says what can be done about an error.
func (a *app) explain(err error) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	p, refused := errors.AsType[*problem.Error](err)
	_, dialled := errors.AsType[*net.OpError](err)
	_, named := errors.AsType[*net.DNSError](err)
	_, sent := errors.AsType[*url.Error](err)
	switch {
	case refused && p.Status == http.StatusUnauthorized:
		return fmt.Errorf("%w; store a good one with hanzo auth login, or put it in HANZO_API_KEY", err)
	case refused:
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing answers at %s; start a server there with sandboxd, or name another one in HANZO_BASE_URL", a.BaseURL)
	case named, dialled && errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s cannot be reached: %w; name another server in HANZO_BASE_URL", a.BaseURL, unwrapped(err))
	case sent:
		return fmt.Errorf("%s: %w", a.BaseURL, unwrapped(err))
	}
	return err
}

// unwrapped leaves out the address of the request.
func unwrapped(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// maxAnswer bounds an answer that is a value, which is held in memory.
const maxAnswer = 256 << 20

// answer sends a call and returns what is answered.
func (a *app) answer(c call) ([]byte, error) {
	resp, err := a.do(c)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, a.explain(err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("the server's answer has more than %d bytes", maxAnswer)
	}
	return body, nil
}

// ask is answer for one that is an object, as v has it.
func (a *app) ask(c call, v any) error {
	body, err := a.answer(c)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	return nil
}

// show sends a call and shows the answer.
func (a *app) show(c call) error {
	body, err := a.answer(c)
	if err != nil {
		return err
	}
	return a.print(os.Stdout, body)
}

// send is show for a body that is a value.
func (a *app) send(c call, v any) error {
	c, err := c.value(v)
	if err != nil {
		return err
	}
	return a.show(c)
}

// copy sends a call and writes the answer as it is.
func (a *app) copy(c call, to io.Writer) error {
	resp, err := a.do(c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(to, resp.Body); err != nil {
		return a.explain(err)
	}
	return nil
}

func get(path ...string) call  { return call{method: http.MethodGet, path: path} }
func post(path ...string) call { return call{method: http.MethodPost, path: path} }

// values are those that are not empty.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
