package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// Config says how to reach a server.
type Config struct {
	// Key is sent as the bearer: one of the server's own keys, or a token.
	Key string
	// HTTPClient sends the requests; nil is one of this package's own. It
	// must have no Timeout, which would cut streams.
	HTTPClient *http.Client
}

// A Remote is a server's sandboxes, as the holder of a key sees them. It has
// the abilities of a sandbox.Scope and is safe for concurrent use.
type Remote struct {
	api  *Client
	http *http.Client
	base *url.URL
	key  string

	plain atomic.Bool // the server has no sockets for commands
}

// A ProblemError is what a server refused with, where package sandbox has no error
// for it.
type ProblemError = problem.Error

var (
	_ sandbox.Driver     = (*Remote)(nil)
	_ sandbox.FileSystem = (*Remote)(nil)
	_ sandbox.Dialer     = (*Remote)(nil)
	_ sandbox.PortLister = (*Remote)(nil)
	_ sandbox.Pauser     = (*Remote)(nil)
	_ sandbox.Renewer    = (*Remote)(nil)
	_ sandbox.Purger     = (*Remote)(nil)
)

// New returns the Remote for the server at base, as "https://host" or with a
// path before /v1. It sends nothing yet.
func New(base string, cfg Config) (*Remote, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("client: %.100q is no address of a server: want http(s)://host", base)
	}
	r := &Remote{base: u, key: cfg.Key, http: cfg.HTTPClient}
	if r.http == nil {
		r.http = &http.Client{Transport: transport()}
	}
	own := *r.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r.http = &own
	r.api, err = NewClient(strings.TrimSuffix(base, "/"), func(c *Client) error {
		c.Client = r.http
		c.RequestEditors = []RequestEditorFn{r.sign}
		return nil
	})
	return r, err
}

// transport keeps enough connections for many commands at once, and waits for
// a server's word before it sends a file.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // it is one
	t.MaxIdleConnsPerHost = 128
	t.MaxIdleConns = 256
	t.DisableCompression = true
	t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
	return t
}

func (r *Remote) sign(_ context.Context, req *http.Request) error {
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	return nil
}

// Lease leases a sandbox, as of a Runtime. Spec.Owner means nothing: the key
// says whose it is.
func (r *Remote) Lease(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	id, err := r.lease(ctx, &spec)
	if err != nil {
		return nil, &sandbox.Error{Op: "lease", Err: err}
	}
	return sandbox.Handle(r, id), nil
}

func (r *Remote) lease(ctx context.Context, spec *sandbox.Spec) (string, error) {
	if spec.TTL < 0 {
		return "", fmt.Errorf("%w: a negative TTL", sandbox.ErrInvalid)
	}
	if spec.Parked {
		return "", fmt.Errorf("a lease without an engine: the server has no such: %w", errors.ErrUnsupported)
	}
	for _, kv := range spec.Env {
		if !utf8.ValidString(kv) {
			return "", fmt.Errorf("%w: environment entry %.40q is no UTF-8, which is all that the wire has", sandbox.ErrInvalid, kv)
		}
	}
	body := SandboxLeaseIn{
		ID: spec.ID, Class: spec.Class, Project: spec.Project, Image: spec.Image, TTLSec: ceilSeconds(spec.TTL),
		Env: spec.Env, Disk: spec.Disk, Fixed: spec.Fixed, Network: spec.Network,
		Cpus: spec.CPUs, Memory: spec.Memory,
	}
	var out SandboxLeased
	resp, err := r.api.LeaseSandbox(ctx, body)
	if err := r.value(ctx, resp, err, &out); err != nil {
		return "", err
	}
	if !idForm.MatchString(out.ID) {
		return "", fmt.Errorf("the server leased %.40q, which is no id", out.ID)
	}
	return out.ID, nil
}

// ceilSeconds keeps a part of a second from becoming the default, which is
// what 0 asks for.
func ceilSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// Attach returns the handle to a sandbox that there is.
func (r *Remote) Attach(ctx context.Context, id string) (*sandbox.Sandbox, error) {
	if _, err := r.info(ctx, id); err != nil {
		return nil, opError("attach", id, err)
	}
	return sandbox.Handle(r, id), nil
}

// List lists the sandboxes that the key's holder sees, newest first: at most
// as many as the server tells.
func (r *Remote) List(ctx context.Context) iter.Seq2[sandbox.Info, error] {
	return func(yield func(sandbox.Info, error) bool) {
		var out SandboxSandboxList
		resp, err := r.api.GetSandbox(ctx, &GetSandboxParams{})
		if err := r.value(ctx, resp, err, &out); err != nil {
			yield(sandbox.Info{}, &sandbox.Error{Op: "list", Err: err})
			return
		}
		for i := range out.Sandboxes {
			if !yield(infoOf(&out.Sandboxes[i]), nil) {
				return
			}
		}
	}
}

// Info implements sandbox.Driver.
func (r *Remote) Info(ctx context.Context, id string) (sandbox.Info, error) {
	info, err := r.info(ctx, id)
	return info, opError("info", id, err)
}

func (r *Remote) info(ctx context.Context, id string) (sandbox.Info, error) {
	var out SandboxSandbox
	if err := checkID(id); err != nil {
		return sandbox.Info{}, err
	}
	resp, err := r.api.GetSandboxByID(ctx, id)
	if err := r.value(ctx, resp, err, &out); err != nil {
		return sandbox.Info{}, err
	}
	return infoOf(&out), nil
}

// End implements sandbox.Driver.
func (r *Remote) End(ctx context.Context, id string) error {
	return opError("end", id, r.end(ctx, id, ""))
}

// Purge implements sandbox.Purger.
func (r *Remote) Purge(ctx context.Context, id string) error {
	return opError("purge", id, r.end(ctx, id, "1"))
}

func (r *Remote) end(ctx context.Context, id, purge string) error {
	if err := checkID(id); err != nil {
		return err
	}
	resp, err := r.api.DeleteSandboxByID(ctx, id, &DeleteSandboxByIDParams{Purge: purge})
	return r.value(ctx, resp, err, nil)
}

// Pause implements sandbox.Pauser.
func (r *Remote) Pause(ctx context.Context, id string) error {
	err := checkID(id)
	if err == nil {
		resp, e := r.api.PostSandboxByIDPause(ctx, id)
		err = r.value(ctx, resp, e, nil)
	}
	return opError("pause", id, err)
}

// Resume implements sandbox.Pauser.
func (r *Remote) Resume(ctx context.Context, id string) error {
	err := checkID(id)
	if err == nil {
		resp, e := r.api.PostSandboxByIDResume(ctx, id)
		err = r.value(ctx, resp, e, nil)
	}
	return opError("resume", id, err)
}

// Renew implements sandbox.Renewer.
func (r *Remote) Renew(ctx context.Context, id string, ttl time.Duration) (time.Time, error) {
	var out SandboxSandbox
	err := checkID(id)
	if err == nil && ttl < 0 {
		err = fmt.Errorf("%w: a negative TTL", sandbox.ErrInvalid)
	}
	if err == nil {
		resp, e := r.api.PostSandboxByIDRenew(ctx, id, SandboxRenewIn{TTLSec: ceilSeconds(ttl)})
		err = extension(r.value(ctx, resp, e, &out))
	}
	return fromUnix(out.ExpiresAt), opError("renew", id, err)
}

// Ports implements sandbox.PortLister.
func (r *Remote) Ports(ctx context.Context, id string) ([]int, error) {
	var out SandboxPorts
	err := checkID(id)
	if err == nil {
		resp, e := r.api.GetSandboxByIDPorts(ctx, id)
		err = r.value(ctx, resp, e, &out)
	}
	ports := make([]int, len(out.Ports))
	for i, p := range out.Ports {
		ports[i] = int(p.Port)
	}
	return ports, opError("ports", id, err)
}

// idForm is what an id can be: anything else is none, and not to be put into
// an address.
var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func checkID(id string) error {
	if idForm.MatchString(id) {
		return nil
	}
	return sandbox.ErrNotFound
}

func opError(op, id string, err error) error {
	if err == nil {
		return nil
	}
	if checkID(id) != nil {
		id = fmt.Sprintf("%.40q", id)
	}
	return &sandbox.Error{Op: op, ID: id, Err: err}
}

const (
	// maxValue bounds a JSON answer and maxProblem a refusal: a server is not
	// to fill this program's memory.
	maxValue   = 256 << 20
	maxProblem = 64 << 10
)

// value reads an answer into v, or the error that it is.
func (r *Remote) value(ctx context.Context, resp *http.Response, err error, v any) error {
	if err := answered(ctx, resp, err); err != nil {
		return err
	}
	defer resp.Body.Close()
	if v == nil {
		_, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem))
		return cause(ctx, err)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxValue)).Decode(v); err != nil {
		return cause(ctx, fmt.Errorf("the server's answer: %w", err))
	}
	return nil
}

// answered returns nil for an answer that is a success; else its body is
// closed.
func answered(ctx context.Context, resp *http.Response, err error) error {
	if err != nil {
		return cause(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return nil
	}
	return refusal(resp)
}

func refusal(resp *http.Response) error { return problem.Received(resp).Sentinel() }

// cause is why a request failed: the context's cause first.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("server: %w", e.Err) // without the address
	}
	return err
}

// extension tells a server that has no such operation from one that has no
// such sandbox.
func extension(err error) error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Code != "" && p.Code != problem.NoRoute && p.Code != problem.MethodNotAllowed {
		return err
	}
	switch p.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return fmt.Errorf("the server does not have this operation: %w", errors.ErrUnsupported)
	}
	return err
}
