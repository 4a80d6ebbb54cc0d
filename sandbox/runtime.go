//go:build linux

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/cgroup"
	"github.com/hanzoai/sandbox/internal/engine"
	"github.com/hanzoai/sandbox/internal/volume"
)

// Config says how a Runtime works. Its zero value is usable.
type Config struct {
	// Root is the folder for everything that the Runtime keeps. One Runtime
	// at a time holds it. Empty is a private temporary folder, which goes with
	// the Runtime.
	Root string

	// Images are the root file systems; nil is Local{}.
	Images Images

	// Executable is a static program to start as the engine and as the init
	// inside, for programs that cannot be it themselves because they need
	// cgo. It must import sandbox/runsc; sandboxd is one.
	Executable string

	// Runsc names a runsc to use as the engine, along PATH, instead of the
	// embedded one. It must be of the gVisor version that this module
	// requires, or newer.
	Runsc string

	// Classes are added to the built-in ones, or replace those of the same
	// names.
	Classes []Class

	// MaxLife is the longest that a sandbox may live from its lease or last
	// resume, whatever it is used for; 0 is 24 hours.
	MaxLife time.Duration
	// Idle ends a sandbox that has not been used for so long, and
	// IdleWatched one in which a terminal is open; 0 is 15 minutes and one
	// hour, and less than 0 never. A command that runs, and a file or
	// connection that is open, is a use as long as it lasts; a terminal is
	// one only when something is typed.
	Idle, IdleWatched time.Duration
	// Extend is how much time a lease gets, from then, when the sandbox is
	// used with less than ExtendBefore left, or less than half of its TTL if
	// that is shorter; 0 is one hour and 10 minutes. An Extend of less than 0
	// leaves leases as they are.
	Extend, ExtendBefore time.Duration
	// Sweep is how often it is looked for what is idle or lost; 0 is a
	// minute.
	Sweep time.Duration

	// Events is told what happens to each sandbox: in order for each, from
	// several goroutines, and before the call that brought it about returns.
	// An event whose telling a crash cut short is told once more by the next
	// Runtime on the Root: the ID with the Generation is what to know it by.
	// It must not call the Runtime.
	Events func(Event)

	// Strict has New fail, with ErrUnavailable, where a limit cannot be
	// enforced on this machine. Otherwise sandboxes start without it, and
	// Runtime.Enforcement tells.
	Strict bool

	// Logger takes what cannot be returned to a caller. Nil discards it.
	Logger *slog.Logger

	step func(string) // for tests: called at each step of a change
}

// A Runtime leases sandboxes on this machine. It is safe for concurrent use.
// As a Driver it has access to all of them; Runtime.For gives that of one
// owner.
type Runtime struct {
	images  Images
	classes map[string]Class
	clocks  clocks
	events  func(Event)
	step    func(string)
	log     *slog.Logger
	root    string
	private bool
	lock    *os.File
	engine  *runsc
	volumes *volume.Store
	cgroups *cgroup.Host
	bin     string
	boot    string // of this machine

	ctx   context.Context //nolint:containedctx // the Runtime's own life: what runs ends with it
	close context.CancelCauseFunc
	tasks sync.WaitGroup // leases under way, and a watcher for each sandbox

	mu        sync.Mutex
	sandboxes map[string]*instance
	ended     map[string]Owner // the latest, to tell ended from unknown
	endedIDs  []string         // in order of their end
	closed    bool
}

// New starts a Runtime and takes over the sandboxes that an earlier one left
// in Root. The process must be root, on Linux.
//
// The caller ends it by Close or Detach.
func New(cfg Config) (*Runtime, error) {
	if err := checkMachine(); err != nil {
		return nil, &Error{Op: "new", Err: err}
	}
	r := &Runtime{
		images: cfg.Images, log: cfg.Logger, events: cfg.Events, step: cfg.step,
		sandboxes: map[string]*instance{}, ended: map[string]Owner{},
	}
	if r.images == nil {
		r.images = Local{}
	}
	if local, ok := r.images.(Local); ok {
		r.images = local.Cached()
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.step == nil {
		r.step = func(string) {}
	}
	r.ctx, r.close = context.WithCancelCause(context.Background()) //nolint:forbidigo // the one context that is nobody's but the Runtime's
	if err := r.open(&cfg); err != nil {
		return nil, &Error{Op: "new", Err: errors.Join(err, r.release())}
	}
	every := cmp.Or(cfg.Sweep, defaultSweep)
	r.tasks.Go(func() { r.reap(every) })
	return r, nil
}

// checkMachine says what is missing here. It asks nothing of /dev/kvm: on
// some machines even the question hangs.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return &wrapped{text: "the engine needs root: run the program as root, for instance with sudo", kind: ErrUnavailable}
	}
	return nil
}

func (r *Runtime) open(cfg *Config) (err error) {
	if r.classes, err = classTable(cfg.Classes); err != nil {
		return err
	}
	if r.clocks, err = clocksOf(cfg); err != nil {
		return err
	}
	if r.boot, err = bootID(); err != nil {
		return err
	}
	path, name, err := findEngine(cfg)
	if err != nil {
		return err
	}
	executable := cmp.Or(cfg.Executable, engine.Self)
	if err := checkExecutable(executable, cfg.Runsc == ""); err != nil {
		return err
	}
	if err := r.openRoot(cfg.Root); err != nil {
		return err
	}
	r.engine = &runsc{path: path, name: name, root: filepath.Join(r.root, "engine")}
	for _, dir := range []string{r.engine.root, r.folder("images"), r.folder("sandboxes")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if r.volumes, err = volume.Open(r.folder("volumes")); err != nil {
		return err
	}
	r.cgroups = cgroup.Open()
	if err := r.checkEnforcement(cfg.Strict); err != nil {
		return err
	}
	if r.bin, err = installInit(executable, r.folder("bin")); err != nil {
		return err
	}
	if err := r.adopt(); err != nil {
		return err
	}
	if err := r.collectVolumes(); err != nil {
		r.log.Error("volumes that are nobody's", "error", err)
	}
	r.sweepPrivateRoots()
	r.cgroups.Sweep(abandoned, validID)
	return r.collect()
}

func (r *Runtime) folder(name string) string { return filepath.Join(r.root, name) }

func (r *Runtime) openRoot(root string) (err error) {
	if root == "" {
		return r.openPrivateRoot()
	}
	if root, err = filepath.Abs(root); err == nil {
		err = os.MkdirAll(root, 0o700)
	}
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	r.lock, err = lockRoot(root)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return &wrapped{text: "root " + root + " is held by another Runtime: give each its own", kind: ErrInUse}
	}
	if err != nil {
		return fmt.Errorf("root: %w", err)
	}
	r.root = root
	return nil
}

// lockRoot takes a Root for this process, or returns EWOULDBLOCK.
func lockRoot(root string) (*os.File, error) {
	path := filepath.Join(root, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// For returns the view of one owner: sandboxes of others do not exist in it,
// and what is leased by it is the owner's. An owner with no Actor sees those
// of the whole Org. The zero Owner is one too: it sees what was leased without
// an Org, so a service must not get here with an owner it has not filled in.
func (r *Runtime) For(owner Owner) *Scope { return &Scope{runtime: r, owner: owner} }

// Attach returns a handle to a sandbox. An id that was never given is
// ErrNotFound, that of an ended sandbox ErrEnded.
func (r *Runtime) Attach(_ context.Context, id string) (*Sandbox, error) {
	if _, err := r.find("attach", id); err != nil {
		return nil, err
	}
	return Handle(r, id), nil
}

// List lists the sandboxes, newest first.
func (r *Runtime) List(context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for _, info := range r.infos() {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (r *Runtime) infos() []Info {
	list := r.all()
	infos := make([]Info, 0, len(list))
	for _, s := range list {
		infos = append(infos, s.info())
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return infos
}

// find returns a sandbox that may be used.
func (r *Runtime) find(op, id string) (*instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[id]; s != nil {
		return s, nil
	}
	if _, ok := r.ended[id]; ok {
		return nil, &Error{Op: op, ID: id, Err: ErrEnded}
	}
	return nil, &Error{Op: op, ID: shorten(id), Err: ErrNotFound}
}

// shorten keeps what is no id from filling an error.
func shorten(id string) string {
	if validID(id) {
		return id
	}
	return fmt.Sprintf("%.40q", id)
}

// Close ends all sandboxes, parked ones too, waits for what it started, and
// gives back everything but the volumes of projects. It is no error to close
// twice.
func (r *Runtime) Close() error { return r.shut(true) }

// Detach lets go of the sandboxes without ending them: the next New on this
// Root takes them over, and each ends at its lease's end even if none comes.
// Commands that run end. With a private Root, which none can take over,
// Detach is Close.
func (r *Runtime) Detach() error { return r.shut(r.private) }

func (r *Runtime) shut(end bool) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	var errs []error
	if end {
		r.close(ErrClosed)
		errs = append(errs, r.endAll())
		r.letGo() // of what could not be ended
	} else {
		r.close(errDetached)
		r.letGo()
	}
	r.tasks.Wait()
	if end {
		errs = append(errs, r.endAll()) // what a lease under way still brought
	}
	return errors.Join(append(errs, r.release())...)
}

func (r *Runtime) all() []*instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*instance, 0, len(r.sandboxes))
	for _, s := range r.sandboxes {
		list = append(list, s)
	}
	return list
}

// endAtOnce bounds how many engine processes Close starts at a time.
const endAtOnce = 8

func (r *Runtime) endAll() error {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, endAtOnce)
	for _, s := range r.all() {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := s.end(ReasonClosed, false); err != nil && !errors.Is(err, ErrEnded) {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *Runtime) letGo() {
	for _, s := range r.all() {
		s.letGo()
	}
}

// release gives back what the Runtime itself holds.
func (r *Runtime) release() error {
	var errs []error
	if r.engine != nil {
		errs = append(errs, r.engine.close())
	}
	if r.private && r.volumes != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), cleanupTimeout)
		defer cancel()
		errs = append(errs, r.volumes.Close(ctx))
	}
	if r.private && r.root != "" {
		errs = append(errs, os.RemoveAll(r.root))
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	return errors.Join(errs...)
}
