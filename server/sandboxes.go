package server

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
)

// maxListed bounds a list.
const maxListed = 200

// GetSandbox lists.
func (s typed) GetSandbox(ctx context.Context, r api.GetSandboxRequestObject) (api.GetSandboxResponseObject, error) {
	project := slug(r.Params.Project)
	list := make([]api.SandboxSandbox, 0, 16)
	for info, err := range s.sandboxes(ctx).List(ctx) {
		if err != nil {
			return nil, err
		}
		if r.Params.Project != "" && info.Project != project || r.Params.Status != "" && string(info.Status) != r.Params.Status {
			continue
		}
		if list = append(list, row(&info)); len(list) == maxListed {
			break
		}
	}
	return api.GetSandbox200JSONResponse{Sandboxes: list}, nil
}

// PostSandbox leases.
func (s typed) PostSandbox(ctx context.Context, r api.PostSandboxRequestObject) (api.PostSandboxResponseObject, error) {
	b := r.Body
	info, err := s.lease(ctx, b.Runtime, b.Cluster, sandbox.Spec{
		Class: className(b.Class), Project: slug(b.Project), Image: b.Image, TTL: seconds(b.TTLSec),
		Env: b.Env, Disk: b.Disk, Fixed: b.Fixed, Network: b.Network, CPUs: b.Cpus, Memory: b.Memory,
	}, b.Project)
	if err != nil {
		return nil, err
	}
	return api.PostSandbox201JSONResponse(row(&info)), nil
}

// LeaseSandbox leases, or comes back.
func (s typed) LeaseSandbox(ctx context.Context, r api.LeaseSandboxRequestObject) (api.LeaseSandboxResponseObject, error) {
	b := r.Body
	info, err := s.lease(ctx, b.Runtime, b.Cluster, sandbox.Spec{
		ID: b.ID, Class: className(b.Class), Project: slug(b.Project), Image: b.Image, TTL: seconds(b.TTLSec),
		Env: b.Env, Disk: b.Disk, Fixed: b.Fixed, Network: b.Network, CPUs: b.Cpus, Memory: b.Memory,
	}, b.Project)
	if err != nil {
		return nil, err
	}
	return api.LeaseSandbox200JSONResponse{
		ID: info.ID, Class: info.Class, Runtime: boundary, Status: string(info.Status), Workdir: info.Workdir,
	}, nil
}

func (s typed) lease(ctx context.Context, runtime, cluster string, spec sandbox.Spec, project string) (sandbox.Info, error) {
	if spec.ID != "" {
		if info, err := s.held(ctx, spec.ID); !gone(err) {
			return info, err
		}
	}
	switch {
	case runtime != "" && runtime != boundary:
		return sandbox.Info{}, problem.New("invalid", "runtime: "+boundary+" is all there is")
	case cluster != "":
		return sandbox.Info{}, problem.New(problem.NoCluster, "cluster: there is none but this one")
	case project != "" && spec.Project == "":
		return sandbox.Info{}, problem.New("invalid", "project: nothing is left of it as a slug of a-z, 0-9 and hyphens")
	}
	p := principalOf(ctx)
	done, err := s.gate.mayLease(ctx, p.Org, spec.Class)
	if err != nil {
		return sandbox.Info{}, err
	}
	defer done()
	held := s.cfg.Sandboxes(p.lessee())
	sb, err := held.Lease(ctx, spec)
	if err != nil {
		return sandbox.Info{}, s.leaseError(err)
	}
	return held.Info(ctx, sb.ID())
}

// held is a sandbox to come back to, running: an administrator comes back to
// another member's too, and it stays theirs.
func (s typed) held(ctx context.Context, id string) (sandbox.Info, error) {
	all := s.sandboxes(ctx)
	info, err := all.Info(ctx, id)
	if err != nil {
		return info, err
	}
	return s.resume(ctx, all, &info)
}

// resume has a sandbox run. One that does is left as it is.
func (s typed) resume(ctx context.Context, all Sandboxes, info *sandbox.Info) (sandbox.Info, error) {
	if info.Status == sandbox.StatusParked {
		done, err := s.gate.mayLease(ctx, principalOf(ctx).Org, info.Class)
		if err != nil {
			return sandbox.Info{}, err
		}
		defer done()
	}
	if err := sandbox.Handle(all, info.ID).Resume(ctx); err != nil {
		return sandbox.Info{}, s.leaseError(err)
	}
	return all.Info(ctx, info.ID)
}

// gone reports whether there is nothing to come back to, which is no error.
func gone(err error) bool {
	return errors.Is(err, sandbox.ErrNotFound) || errors.Is(err, sandbox.ErrEnded)
}

// leaseError tells what is wrong with the request from what is wrong here.
func (s *server) leaseError(err error) error {
	if errors.Is(err, sandbox.ErrNotFound) { // of an image
		return problem.New(problem.ImageNotFound, "image: there is none of that name")
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	if p, known := problem.Of(err); known {
		return p
	}
	s.log.Error("a sandbox did not start", "error", err)
	return problem.New(problem.StartFailed, "start sandbox: the engine did not start; the server's log says why")
}

// GetSandboxByID describes.
func (s typed) GetSandboxByID(ctx context.Context, r api.GetSandboxByIDRequestObject) (api.GetSandboxByIDResponseObject, error) {
	info, err := s.sandboxes(ctx).Info(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.GetSandboxByID200JSONResponse(row(&info)), nil
}

// DeleteSandboxByID ends.
func (s typed) DeleteSandboxByID(ctx context.Context, r api.DeleteSandboxByIDRequestObject) (api.DeleteSandboxByIDResponseObject, error) {
	if err := s.end(ctx, r.ID, r.Params.Purge == "1"); err != nil {
		return nil, err
	}
	return api.DeleteSandboxByID204Response{}, nil
}

// EndSandbox ends.
func (s typed) EndSandbox(ctx context.Context, r api.EndSandboxRequestObject) (api.EndSandboxResponseObject, error) {
	if err := s.end(ctx, r.Body.ID, r.Body.Purge); err != nil {
		return nil, err
	}
	return api.EndSandbox204Response{}, nil
}

func (s typed) end(ctx context.Context, id string, purge bool) error {
	sb := sandbox.Handle(s.sandboxes(ctx), id)
	if !purge {
		return sb.End(ctx)
	}
	return sb.Purge(ctx)
}

// PostSandboxByIDPause pauses.
func (s typed) PostSandboxByIDPause(ctx context.Context, r api.PostSandboxByIDPauseRequestObject) (api.PostSandboxByIDPauseResponseObject, error) {
	all := s.sandboxes(ctx)
	if err := sandbox.Handle(all, r.ID).Pause(ctx); err != nil {
		return nil, err
	}
	info, err := all.Info(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.PostSandboxByIDPause200JSONResponse(row(&info)), nil
}

// PostSandboxByIDResume resumes.
func (s typed) PostSandboxByIDResume(ctx context.Context, r api.PostSandboxByIDResumeRequestObject) (api.PostSandboxByIDResumeResponseObject, error) {
	all := s.sandboxes(ctx)
	info, err := all.Info(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	if info, err = s.resume(ctx, all, &info); err != nil {
		return nil, err
	}
	return api.PostSandboxByIDResume200JSONResponse(row(&info)), nil
}

// PostSandboxByIDRenew renews.
func (s typed) PostSandboxByIDRenew(ctx context.Context, r api.PostSandboxByIDRenewRequestObject) (api.PostSandboxByIDRenewResponseObject, error) {
	if r.Body.TTLSec < 0 {
		return nil, problem.New("invalid", "ttlSec: it is negative")
	}
	all := s.sandboxes(ctx)
	if _, err := sandbox.Handle(all, r.ID).Renew(ctx, seconds(r.Body.TTLSec)); err != nil {
		return nil, err
	}
	info, err := all.Info(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return api.PostSandboxByIDRenew200JSONResponse(row(&info)), nil
}

// GetSandboxByIDPorts lists ports.
func (s typed) GetSandboxByIDPorts(ctx context.Context, r api.GetSandboxByIDPortsRequestObject) (api.GetSandboxByIDPortsResponseObject, error) {
	ports, err := sandbox.Handle(s.sandboxes(ctx), r.ID).Ports(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]api.SandboxPort, len(ports))
	for i, port := range ports {
		list[i] = api.SandboxPort{Port: int64(port), Host: s.previews.authority(hostOf(ctx), previewed{r.ID, port})}
	}
	return api.GetSandboxByIDPorts200JSONResponse{Ports: list}, nil
}

// boundary is what keeps sandboxes apart.
const boundary = "gvisor"

// row is a sandbox on the wire.
func row(i *sandbox.Info) api.SandboxSandbox {
	return api.SandboxSandbox{
		ID: i.ID, Kind: "sandbox", Org: i.Owner.Org, Actor: i.Owner.Actor,
		Class: i.Class, Project: i.Project, Image: i.Image, Digest: i.Digest, Runtime: boundary,
		Limits: api.SandboxLimits{Cpus: i.Limits.CPUs, Memory: i.Limits.Memory, Pids: int64(i.Limits.Pids)},
		Status: string(i.Status), Error: i.Error, Volume: i.Volume, Workdir: i.Workdir,
		CreatedAt: unix(i.Created), LastUsedAt: unix(i.Used), ConnectedAt: unix(i.Connected), ExpiresAt: unix(i.Expires),
	}
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// seconds is a duration from the wire, where what is not more than 0 asks for
// the default.
func seconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	return time.Duration(min(max(n, 0), most)) * time.Second
}

func className(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

const maxSlug = 48

// slug is a project's name as it is kept.
func slug(name string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r == '_' || r == '/' || r == '.' || r == ' ':
			return '-'
		}
		return -1
	}, strings.ToLower(name))
	return s[:min(len(s), maxSlug)]
}

// fileKinds are what a file can be, on the wire.
func fileKind(mode fs.FileMode) api.SandboxStatType {
	switch {
	case mode.IsRegular():
		return api.SandboxStatTypeFile
	case mode.IsDir():
		return api.SandboxStatTypeDirectory
	case mode.Type() == fs.ModeSymlink:
		return api.SandboxStatTypeLink
	}
	return api.SandboxStatTypeOther
}
