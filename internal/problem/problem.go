// Package problem is the one table by which errors cross the wire: a server
// writes an error as a problem (RFC 9457) with a code, and a client reads it
// back as an error that errors.Is takes for the same.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/hanzoai/sandbox/sandbox"
)

// MediaType is of a problem's body.
const MediaType = "application/problem+json"

// Details are a problem's body.
type Details struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Error  string `json:"error,omitempty"` // the code once more

	ID            string `json:"id,omitempty"`
	SandboxStatus string `json:"sandboxStatus,omitempty"`
	Errno         string `json:"errno,omitempty"`
	Org           string `json:"org,omitempty"`
	Class         string `json:"class,omitempty"`
	Live          int    `json:"live,omitempty"`
	Ceiling       int    `json:"ceiling,omitempty"`
}

// A kind is a row of the table.
type kind struct {
	code     string
	status   int
	sentinel error // nil: it is the server's own, of which a client has no other name
}

// errInvalidPath is a file name that cannot be right: in the terms of package
// sandbox, and of io/fs too.
var errInvalidPath = errors.Join(sandbox.ErrInvalid, fs.ErrInvalid)

// kinds is the table. Of several that an error matches the first counts.
var kinds = []kind{
	{"invalid_path", http.StatusBadRequest, errInvalidPath},
	{"sandbox_not_found", http.StatusNotFound, sandbox.ErrNotFound},
	{"sandbox_ended", http.StatusNotFound, sandbox.ErrEnded},
	{"sandbox_lost", http.StatusConflict, sandbox.ErrLost},
	{"conflict", http.StatusConflict, sandbox.ErrConflict},
	{"too_many_sandboxes", http.StatusTooManyRequests, sandbox.ErrCeiling},
	{"invalid", http.StatusBadRequest, sandbox.ErrInvalid},
	{"timeout", http.StatusBadGateway, sandbox.ErrTimeout},
	{"closed", http.StatusServiceUnavailable, sandbox.ErrClosed},
	{"in_use", http.StatusServiceUnavailable, sandbox.ErrInUse},
	{"unavailable", http.StatusServiceUnavailable, sandbox.ErrUnavailable},
	{"deadline_exceeded", http.StatusBadGateway, context.DeadlineExceeded},
	{"canceled", http.StatusBadGateway, context.Canceled},
	{"connection_refused", http.StatusBadGateway, syscall.ECONNREFUSED},
	{"file_not_found", http.StatusNotFound, fs.ErrNotExist},
	{"file_exists", http.StatusBadRequest, fs.ErrExist},
	{"permission_denied", http.StatusBadRequest, fs.ErrPermission},
	{"unsupported_capability", http.StatusNotImplemented, errors.ErrUnsupported},

	{ImageNotFound, http.StatusBadRequest, sandbox.ErrNotFound}, // after that of a sandbox, which is what it matches otherwise

	{FileError, http.StatusBadRequest, nil},
	{BadRequest, http.StatusBadRequest, nil},
	{Unauthorized, http.StatusUnauthorized, nil},
	{PaymentRequired, http.StatusPaymentRequired, nil},
	{NoOrganisation, http.StatusForbidden, nil},
	{CrossOrigin, http.StatusForbidden, nil},
	{NoRoute, http.StatusNotFound, nil},
	{NoCluster, http.StatusNotFound, nil},
	{ToolchainMissing, http.StatusNotImplemented, nil},
	{MethodNotAllowed, http.StatusMethodNotAllowed, nil},
	{TooLarge, http.StatusRequestEntityTooLarge, nil},
	{UnsupportedMediaType, http.StatusUnsupportedMediaType, nil},
	{RateLimited, http.StatusTooManyRequests, nil},
	{TooManyRuns, http.StatusTooManyRequests, nil},
	{Internal, http.StatusInternalServerError, nil},
	{StartFailed, http.StatusServiceUnavailable, nil},
	{NotReady, http.StatusServiceUnavailable, nil},
}

// Codes of the server's own.
const (
	ImageNotFound        = "image_not_found"
	ToolchainMissing     = "toolchain_missing"
	FileError            = "file_error" // Errno says what
	BadRequest           = "bad_request"
	Unauthorized         = "unauthorized"
	PaymentRequired      = "payment_required"
	NoOrganisation       = "no_organisation"
	CrossOrigin          = "cross_origin"
	NoRoute              = "no_such_route"
	NoCluster            = "no_such_cluster"
	MethodNotAllowed     = "method_not_allowed"
	TooLarge             = "too_large"
	UnsupportedMediaType = "unsupported_media_type"
	RateLimited          = "rate_limited"
	TooManyRuns          = "too_many_runs"
	Internal             = "internal"
	StartFailed          = "start_failed"
	NotReady             = "not_ready"
)

// Codes are all codes.
func Codes() []string {
	codes := make([]string, len(kinds))
	for i, k := range kinds {
		codes[i] = k.code
	}
	return codes
}

func (k *kind) matches(err error) bool {
	if k.sentinel == errInvalidPath { //nolint:errorlint // the row itself
		return errors.Is(err, sandbox.ErrInvalid) && errors.Is(err, fs.ErrInvalid)
	}
	return k.sentinel != nil && errors.Is(err, k.sentinel)
}

func byCode(code string) *kind {
	for i := range kinds {
		if kinds[i].code == code {
			return &kinds[i]
		}
	}
	return nil
}

// Decode reads a problem's body. What is none becomes one with the status
// alone.
func Decode(status int, body []byte) *Error {
	e := &Error{}
	if err := json.Unmarshal(body, &e.Details); err != nil || e.Code == "" && e.Detail == "" {
		e.Details = Details{}
	}
	e.Status = status
	if e.Title == "" {
		e.Title = http.StatusText(status)
	}
	return e
}

// maxBody bounds what is read of a refusal: a server is not to fill a client's
// memory.
const maxBody = 64 << 10

// Received reads the problem that an answer is which is no success, and closes
// its body. Redirects are not followed, as a key is for the server that it was
// given for.
func Received(resp *http.Response) *Error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		body = nil // the status says enough
	}
	e := Decode(resp.StatusCode, body)
	if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && e.Detail == "" {
		e.Detail = fmt.Sprintf("the server is elsewhere, at %.200q, and was not followed there", to)
	}
	return e
}
