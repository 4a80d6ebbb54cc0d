package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/client"
)

const (
	// startTimeout bounds the start of an engine.
	startTimeout = 120 * time.Second
	// cleanupTimeout bounds giving back what a sandbox holds, which goes on
	// also when its caller is gone.
	cleanupTimeout = 30 * time.Second
	// orphanGrace is how long a sandbox on a private Root outlives its
	// Runtime: nothing else will ever end it.
	orphanGrace = 10 * time.Second
)

// Lease makes a sandbox and returns when it runs. It lives until its lease
// ends, by End, by time or with the Runtime; ending ctx later does not end it.
func (r *Runtime) Lease(ctx context.Context, spec Spec) (*Sandbox, error) {
	s, err := r.lease(ctx, spec)
	if err != nil {
		return nil, &Error{Op: "lease", Err: err}
	}
	return Handle(r, s.row.ID), nil
}

func (r *Runtime) lease(ctx context.Context, spec Spec) (*instance, error) {
	class, err := complete(&spec, r.byClass)
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
	image, err := s.findImage(ctx)
	if err != nil {
		return nil, errors.Join(err, removeTree(s.dir))
	}
	s.row.Env = environment(image, spec.Env)
	ctx, stop := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no start within %v: %w", startTimeout, ErrTimeout))
	defer stop()
	if err := s.start(ctx, image); err != nil {
		return nil, errors.Join(err, s.scrap())
	}
	return s, r.enter(s)
}

// complete checks a Spec and fills in its defaults.
func complete(spec *Spec, byClass map[string]string) (class, error) {
	if spec.Class == "" {
		spec.Class = ClassExec
	}
	if spec.Image == "" {
		spec.Image = cmp.Or(byClass[spec.Class], HostImage)
	}
	c, err := findClass(spec.Class)
	if err != nil {
		return class{}, err
	}
	if spec.Network != "" && spec.Network != "none" {
		return class{}, invalid("network %.40q: this version has none", spec.Network)
	}
	if spec.TTL < 0 {
		return class{}, invalid("a negative TTL")
	}
	if spec.TTL == 0 {
		spec.TTL = c.ttl
	}
	spec.TTL = min(spec.TTL, maxLife)
	size := 0
	if err := checkStrings(spec.Env, &size); err != nil {
		return class{}, err
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

func (r *Runtime) newInstance(spec Spec, c class) *instance {
	now := time.Now()
	info := Info{
		ID: newID(), Owner: spec.Owner, Class: spec.Class, Image: spec.Image,
		Status: StatusPending, Workdir: c.workdir,
		Created: now, Expires: now.Add(spec.TTL),
	}
	return r.instance(row{Info: info})
}

// enter puts a started sandbox on the list and starts watching it.
func (r *Runtime) enter(s *instance) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errors.Join(ErrClosed, s.scrap())
	}
	r.sandboxes[s.row.ID] = s
	r.tasks.Go(s.watchOver)
	r.mu.Unlock()
	return nil
}

// findImage makes the sandbox's folder and has the image found for it. Until
// it runs, the folder alone stands for the sandbox: it keeps the image from
// being removed, and is removed itself when it is found without a row.
func (s *instance) findImage(ctx context.Context) (*Image, error) {
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	image, err := s.runtime.images.Image(ctx, ImageRequest{
		Name: s.row.Image, Class: s.row.Class, Owner: s.row.Owner,
		Dir: s.runtime.folder("images"), Holder: s.dir,
	})
	if err != nil {
		return nil, err
	}
	s.row.Digest = image.Digest
	// The lease begins now, however long it took to fetch the image.
	ttl := s.row.Expires.Sub(s.row.Created)
	s.row.Created = time.Now()
	s.row.Expires = s.row.Created.Add(ttl)
	return image, nil
}

// start boots the engine and waits for the init.
func (s *instance) start(ctx context.Context, image *Image) error {
	s.row.Init, s.row.Root = s.bin, image.Root
	c := classes[s.row.Class]
	if err := s.write(bundleSpec(s.places, image, c)); err != nil {
		return err
	}
	pidFile := filepath.Join(s.dir, "pid")
	if err := s.runtime.engine.start(ctx, s.row.ID, s.places, pidFile); err != nil {
		return err
	}
	if err := s.identify(pidFile); err != nil {
		return err
	}
	if err := s.meet(ctx); err != nil {
		return err
	}
	s.row.Status = StatusRunning
	return s.row.write(s.dir)
}

// identify notes which process the engine is.
func (s *instance) identify(pidFile string) error {
	b, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	if s.row.PID, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
		return fmt.Errorf("%s: %w", pidFile, err)
	}
	s.row.Started, err = processStart(s.row.PID)
	return err
}

// meet opens the watch as soon as the init answers.
func (s *instance) meet(ctx context.Context) error {
	wait := time.NewTicker(meetInterval)
	defer wait.Stop()
	for {
		watch, err := s.openWatch(ctx)
		if err == nil {
			s.watch = watch
			return nil
		}
		if alive, _ := s.alive(); !alive {
			return &startFailedError{err: errors.New("it ended at once"), log: lastLines(filepath.Join(s.dir, "init.log"), filepath.Join(s.dir, "engine.log"))}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
		}
	}
}

const meetInterval = time.Millisecond

func (s *instance) openWatch(ctx context.Context) (*client.Watch, error) {
	orphan := time.Duration(0)
	if s.runtime.private {
		orphan = orphanGrace
	}
	return s.client.Watch(ctx, s.row.Expires, orphan)
}
