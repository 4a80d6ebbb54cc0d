//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// startTimeout bounds the start of an engine.
	startTimeout = 120 * time.Second
	// cleanupTimeout bounds giving back what a sandbox holds.
	cleanupTimeout = 30 * time.Second
)

// Lease makes a sandbox, or comes back to the one that spec.ID names, and
// returns when it runs. It lives until its lease ends, by End, by time or with
// the Runtime; ending ctx later does not end it.
func (r *Runtime) Lease(ctx context.Context, spec Spec) (*Sandbox, error) {
	s, err := r.lease(ctx, &spec)
	if err != nil {
		return nil, &Error{Op: "lease", Err: err}
	}
	return Handle(r, s.id), nil
}

func (r *Runtime) lease(ctx context.Context, spec *Spec) (*instance, error) {
	if spec.ID != "" {
		s, err := r.comeBack(ctx, spec.Owner, spec.ID)
		if s != nil || err != nil {
			return s, err
		}
	}
	class, err := r.complete(spec)
	if err != nil {
		return nil, err
	}
	if err := r.begin(); err != nil {
		return nil, err
	}
	defer r.tasks.Done()
	ctx, cancel := r.bound(ctx)
	defer cancel()
	s := r.newInstance(spec, class)
	s.moving.Lock() // before anybody else can know of it
	defer s.moving.Unlock()
	if spec.Parked {
		if err := r.leaseParked(spec, s); err != nil {
			return nil, s.giveUp(err)
		}
		return s, nil
	}
	if err := r.admit(s); err != nil {
		return nil, err
	}
	if err := s.create(ctx, spec.Env); err != nil {
		return nil, s.giveUp(err)
	}
	return s, nil
}

// giveUp undoes a lease that failed. The caller holds s.moving.
func (s *instance) giveUp(err error) error {
	s.mu.Lock()
	s.leaving, s.row.Next, s.row.Reason = ErrEnded, statusEnded, ReasonStartFailed
	s.mu.Unlock()
	return errors.Join(err, s.finishEnd())
}

// comeBack returns the sandbox with that id, running; or neither it nor an
// error if the owner has none, or no longer.
func (r *Runtime) comeBack(ctx context.Context, owner Owner, id string) (*instance, error) {
	s, err := r.find("lease", id)
	if err != nil || !owner.covers(s.owner) {
		return nil, nil //nolint:nilnil,nilerr // not to be had is no error here
	}
	if s.status() == StatusError { // it has no engine, and may have its files
		err = r.carryOut(ctx, s.salvage)
	}
	if err == nil {
		err = r.carryOut(ctx, s.resume)
	}
	if errors.Is(err, ErrEnded) || errors.Is(err, errNothingToSave) || s.status() == StatusError {
		return nil, nil //nolint:nilnil // it ended meanwhile
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// complete checks a Spec and fills in its defaults.
func (r *Runtime) complete(spec *Spec) (Class, error) {
	if spec.Class == "" {
		spec.Class = ClassExec
	}
	c, err := r.class(spec.Class)
	if err != nil {
		return Class{}, err
	}
	if spec.Image == "" {
		spec.Image = c.Image
	}
	if spec.Parked {
		if spec.Project != "" {
			return Class{}, invalid("a project's sandbox is not leased parked: its volume has files that programs left")
		}
		spec.Disk = true
	}
	if spec.Project == "" && c.NeedsProject {
		return Class{}, invalid("class %s: name the project that its files are of", c.Name)
	}
	for what, name := range map[string]string{
		"project": spec.Project, "owner's organisation": spec.Owner.Org, "owner's actor": spec.Owner.Actor,
	} {
		if err := checkName(what, name); err != nil {
			return Class{}, err
		}
	}
	if len(spec.Image) > maxImageName {
		return Class{}, invalid("image name of %d bytes: at most %d", len(spec.Image), maxImageName)
	}
	if spec.Network != "" && spec.Network != "none" {
		return Class{}, invalid("network %.40q: this version has none", spec.Network)
	}
	if spec.TTL < 0 || spec.TTL > 0 && spec.TTL < minTTL {
		return Class{}, invalid("a TTL of %v: the least is %v", spec.TTL, minTTL)
	}
	if spec.TTL == 0 {
		spec.TTL = c.TTL
	}
	spec.TTL = min(spec.TTL, r.clocks.maxLife)
	if err := completeLimits(spec, &c); err != nil {
		return Class{}, err
	}
	size := 0
	if err := checkStrings(spec.Env, &size); err != nil {
		return Class{}, err
	}
	return c, checkEnv(spec.Env)
}

// begin enters a task that Close waits for.
func (r *Runtime) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	r.tasks.Add(1)
	return nil
}

// bound returns a context that ends with ctx or with the Runtime.
func (r *Runtime) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// carryOut does what is not to be left half done: it goes on when ctx ends.
func (r *Runtime) carryOut(ctx context.Context, do func() error) error {
	if err := r.begin(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer r.tasks.Done()
		done <- do()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Runtime) newInstance(spec *Spec, c Class) *instance {
	now := time.Now()
	row := row{
		Info: Info{
			ID: newID(), Owner: spec.Owner, Class: c.Name, Project: spec.Project, Image: spec.Image,
			Status: StatusPending, Workdir: c.Workdir,
			Limits:  Limits{CPUs: spec.CPUs, Memory: spec.Memory, Pids: c.Pids},
			Created: now, Used: now, Expires: now.Add(spec.TTL),
		},
		TTL: spec.TTL, Fixed: spec.Fixed,
	}
	row.Volume = volumeName(&row.Info, spec.Disk)
	return r.instance(row)
}

// admit puts a sandbox that is to have an engine on the list, if its owner may
// have it. To look and to put it there is one step, so of two at once that
// exclude each other one is refused.
func (r *Runtime) admit(s *instance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	c, org := r.classes[s.row.Class], s.owner.Org
	live := 0
	for _, other := range r.sandboxes {
		if other == s {
			continue
		}
		info, holds := other.claims()
		if s.row.Volume != "" && info.Volume == s.row.Volume && holds {
			return inTheWay(&info)
		}
		if other.owner.Org != org {
			continue
		}
		if info.Class == s.row.Class && info.Status.live() {
			live++
		}
	}
	if c.Ceiling > 0 && org != "" && live >= c.Ceiling {
		return &CeilingError{Org: org, Class: c.Name, Live: live, Ceiling: c.Ceiling}
	}
	s.mu.Lock()
	s.row.Status = StatusPending
	s.mu.Unlock()
	r.sandboxes[s.id] = s
	return nil
}

// claims describes a sandbox and says whether its project is taken by it. One
// that is lost lets go of it: its files are for whoever comes next.
func (s *instance) claims() (Info, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.row.Status == StatusError && s.life == nil && s.row.Next != StatusParked
	return s.row.Info, !lost || s.row.Mounted || len(s.row.Engine) > 0
}

// mayPark makes a sandbox that is lost, or half paused, one that is to be
// parked, if there are files to keep and its project is not another's by now.
func (r *Runtime) mayPark(s *instance) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.sandboxes {
		if other == s {
			continue
		}
		if info, holds := other.claims(); holds && info.Volume != "" && info.Volume == s.row.Volume {
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.row.Status == StatusError || s.row.Next == StatusParked
	if !lost || s.row.Volume == "" || s.row.Next == statusEnded {
		return false
	}
	s.row.Next = StatusParked
	return true
}

func inTheWay(other *Info) error {
	remedy := "use it, or end it first"
	switch other.Status { //nolint:exhaustive // the others can be used
	case StatusParked:
		remedy = "come back to it by its ID, or end it first"
	case StatusError:
		remedy = "it is being given up: try again"
	}
	return &ConflictError{ID: other.ID, Status: other.Status, Why: fmt.Sprintf(
		"project %.80q has sandbox %s, which is %s: %s", other.Project, other.ID, other.Status, remedy)}
}

// create makes the folder of a new sandbox and starts its engine. The caller
// holds s.moving.
func (s *instance) create(ctx context.Context, env []string) error {
	s.runtime.step("create: begin")
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	s.mu.Lock()
	s.row.Next = StatusRunning
	s.note(EventLeased, "")
	s.mu.Unlock()
	s.runtime.step("create: folder")
	if err := s.save(false); err != nil {
		return err
	}
	s.runtime.step("create: row")
	image, err := s.findImage(ctx, "")
	if err != nil {
		return err
	}
	if err := checkScreen(s.class(), s.row.Image, image); err != nil {
		return err
	}
	s.mu.Lock()
	if s.class().Screen {
		env = slices.Concat(screenEnv, env)
	}
	s.row.Env = environment(image, env)
	// The lease begins now, however long it took to fetch the image.
	now := time.Now()
	s.row.Created, s.row.Used, s.row.Expires = now, now, now.Add(s.row.TTL)
	s.mu.Unlock()
	return s.start(ctx, image, EventRunning)
}

// findImage has the image found, that of the digest if the sandbox has had one
// before. The sandbox's folder keeps it from being removed.
func (s *instance) findImage(ctx context.Context, digest string) (*Image, error) {
	image, err := s.runtime.images.Image(ctx, ImageRequest{
		Name: s.row.Image, Class: s.row.Class, Owner: s.owner, Digest: digest,
		Dir: s.runtime.folder("images"), Holder: s.dir,
	})
	if err != nil {
		return nil, err
	}
	// The engine mounts below it, and refuses a way that has links.
	root, err := filepath.EvalSymlinks(image.Root)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.row.Digest = image.Digest
	s.mu.Unlock()
	found := *image
	found.Root = root
	return &found, nil
}

// environment is what every command of a sandbox starts with.
func environment(image *Image, extra []string) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + homeDir, "USER=" + userName, "LOGNAME=" + userName,
		"LANG=C.UTF-8",
	}
	return slices.Concat(env, image.Env, extra)
}
