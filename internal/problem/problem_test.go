package problem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/matryer/is"

	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// sentinels are what errors.Is is asked of on either side.
var sentinels = []error{
	sandbox.ErrNotFound, sandbox.ErrEnded, sandbox.ErrLost, sandbox.ErrConflict, sandbox.ErrCeiling, sandbox.ErrInvalid,
	sandbox.ErrTimeout, sandbox.ErrClosed, sandbox.ErrInUse, sandbox.ErrUnavailable,
	context.Canceled, context.DeadlineExceeded, errors.ErrUnsupported,
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid,
	syscall.EISDIR, syscall.ENOTDIR, syscall.ENOTEMPTY, syscall.ENOSPC, syscall.ELOOP, syscall.ECONNREFUSED, syscall.ENOENT,
}

// said are errors as a Driver returns them.
func said() []error {
	id := strings.Repeat("x", 21)
	list := []error{
		&sandbox.Error{Op: "pause", ID: id, Err: &sandbox.ConflictError{ID: id, Status: sandbox.StatusParked, Why: "parked: resume it"}},
		&sandbox.Error{Op: "lease", Err: &sandbox.CeilingError{Org: "acme", Class: "exec", Live: 16, Ceiling: 16}},
		&sandbox.Error{Op: "dial", ID: id, Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}},
		&fs.PathError{Op: "write", Path: "../x", Err: errors.Join(sandbox.ErrInvalid, fs.ErrInvalid)},
		&fs.PathError{Op: "open", Path: "x", Err: sandbox.ErrEnded},
	}
	for _, err := range sentinels[:13] {
		if errors.Is(err, sandbox.ErrCeiling) {
			continue // it never comes without its type
		}
		list = append(list, &sandbox.Error{Op: "exec", ID: id, Err: fmt.Errorf("this: %w", err)})
	}
	for _, errno := range []syscall.Errno{
		syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.EEXIST, syscall.EISDIR, syscall.ENOTDIR, syscall.ENOTEMPTY,
		syscall.ENOSPC, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EROFS, syscall.EDQUOT, syscall.EINVAL,
	} {
		list = append(list, &fs.PathError{Op: "open", Path: "x", Err: errno})
	}
	return list
}

// TestBothWays sends errors over the wire, and wants errors.Is to give the
// same answers there as here.
func TestBothWays(t *testing.T) {
	for _, err := range said() {
		t.Run(err.Error(), func(t *testing.T) {
			is := is.New(t)
			p, ok := problem.Of(err)
			is.True(ok)
			body, e := json.Marshal(p.Details)
			is.NoErr(e)
			got := problem.Decode(p.Status, body).Sentinel()
			for _, s := range sentinels {
				if errors.Is(got, s) != errors.Is(err, s) {
					t.Errorf("errors.Is(%q) is %v here and %v there", s, errors.Is(err, s), errors.Is(got, s))
				}
			}
			is.True(strings.Contains(err.Error(), got.Error())) // the sentence arrives
		})
	}
}

func TestTypes(t *testing.T) {
	is := is.New(t)
	conflict := &sandbox.ConflictError{ID: "the-id", Status: sandbox.StatusRunning, Why: "it runs"}
	p, _ := problem.Of(conflict)
	is.Equal(p.Status, 409)
	got, ok := errors.AsType[*sandbox.ConflictError](p.Sentinel())
	is.True(ok)
	is.Equal(*got, *conflict)
	ceiling := &sandbox.CeilingError{Org: "acme", Class: "exec", Live: 3, Ceiling: 2}
	p, _ = problem.Of(ceiling)
	is.Equal(p.Status, 429)
	over, ok := errors.AsType[*sandbox.CeilingError](p.Sentinel())
	is.True(ok)
	is.Equal(*over, *ceiling)
}

// TestNoneForgotten looks for sentinels of package sandbox that the table does
// not have.
func TestNoneForgotten(t *testing.T) {
	is := is.New(t)
	source, err := os.ReadFile("../../sandbox/errors.go")
	is.NoErr(err)
	found := regexp.MustCompile(`(?m)^\tErr\w+ += errors\.New\("(.*)"\)$`).FindAllSubmatch(source, -1)
	is.True(len(found) >= 10)
	for _, m := range found {
		known := func(err error) bool { return err.Error() == string(m[1]) }
		i := slices.IndexFunc(sentinels, known)
		if i < 0 {
			t.Errorf("%q is not walked", m[1])
			continue
		}
		_, crosses := problem.Of(sentinels[i])
		is.True(crosses)
	}
}

// TestImageNotFound is a thing that a sandbox.ErrNotFound can be other than a
// sandbox.
func TestImageNotFound(t *testing.T) {
	is := is.New(t)
	p := problem.New(problem.ImageNotFound, "why")
	is.Equal(p.Status, 400)
	body, err := json.Marshal(p.Details)
	is.NoErr(err)
	is.True(errors.Is(problem.Decode(p.Status, body).Sentinel(), sandbox.ErrNotFound))
}

// TestEveryCode has no two rows alike, and each code keep its status.
func TestEveryCode(t *testing.T) {
	is := is.New(t)
	seen := map[string]bool{}
	for _, code := range problem.Codes() {
		is.True(!seen[code]) // one row a code
		seen[code] = true
		p := problem.New(code, "why")
		is.True(p.Status >= 400)
		is.True(p.Title != "")
		back := problem.Decode(p.Status, fmt.Appendf(nil, `{"code":%q,"detail":"why"}`, code))
		again, ok := problem.Of(back)
		is.True(ok)
		is.Equal(again.Code, code)
		is.Equal(again.Status, p.Status)
	}
}

// TestNothingElse keeps what a server knows of its own machine to itself.
func TestNothingElse(t *testing.T) {
	for _, err := range []error{
		errors.New("open /root/secret: boom"),
		&sandbox.Error{Op: "lease", Err: fmt.Errorf("mount /srv/x: %w", syscall.ENODEV)},
		&sandbox.Error{Op: "lease", Err: fmt.Errorf("image /srv/x: %w", fs.ErrNotExist)},
	} {
		is := is.New(t)
		p, ok := problem.Of(err)
		is.True(!ok)
		is.Equal(p.Code, problem.Internal)
		is.True(!strings.Contains(p.Detail, "/"))
	}
}

// TestBrief has a sentence not repeat all of what a caller sent, and still say
// what is wrong with it.
func TestBrief(t *testing.T) {
	for _, path := range []string{
		strings.Repeat("x", 30<<10), strings.Repeat("ü", 15<<10), "x" + strings.Repeat("€", 10<<10),
	} {
		is := is.New(t)
		p, ok := problem.Of(&fs.PathError{Op: "open", Path: path, Err: syscall.ENAMETOOLONG})
		is.True(ok)
		is.True(len(p.Detail) <= 500)
		is.True(utf8.ValidString(p.Detail))
		is.True(strings.HasPrefix(p.Detail, "open "+path[:60]))
		is.True(strings.HasSuffix(p.Detail, path[len(path)-60:]+": file name too long"))
		is.Equal(strings.Count(p.Detail, "…"), 1)
	}
	is := is.New(t)
	is.Equal(problem.Brief("open x: no such file"), "open x: no such file")
}

func TestNotAProblem(t *testing.T) {
	for _, body := range []string{"", "<html>", "[]", `{"a":1}`, `{"code":3}`, "null"} {
		is := is.New(t)
		e := problem.Decode(503, []byte(body))
		is.Equal(e.Status, 503)
		is.Equal(e.Error(), "Service Unavailable")
		is.Equal(e.Code, "")
		is.Equal(len(e.Unwrap()), 0)
	}
}
