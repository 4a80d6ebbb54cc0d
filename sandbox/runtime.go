package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/hanzoai/sandbox/internal/engine"
)

// Config says how a Runtime works. Its zero value is usable.
type Config struct {
	// Root is the folder for everything that the Runtime keeps. One Runtime
	// at a time holds it. Empty is a private temporary folder, which goes with
	// the Runtime.
	Root string

	// Images are the root file systems; nil is Local{}.
	Images Images

	// DefaultImages are the images of leases that name none, by class. Where
	// a class has none here it is "host".
	DefaultImages map[string]string

	// Executable is a static program to start as the engine and as the init
	// inside, for programs that cannot be it themselves because they need
	// cgo. It must import sandbox/runsc; sandboxd is one.
	Executable string

	// Runsc names a runsc to use as the engine, along PATH, instead of the
	// embedded one. It must be of the gVisor version that this module
	// requires, or newer.
	Runsc string

	// Logger takes what cannot be returned to a caller. Nil discards it.
	Logger *slog.Logger
}

// A Runtime leases sandboxes on this machine. It is safe for concurrent use.
// As a Driver it has access to all of them; Runtime.For gives that of one
// owner.
type Runtime struct {
	images  Images
	byClass map[string]string // images of leases that name none
	log     *slog.Logger
	root    string
	private bool
	lock    *os.File
	engine  *runsc
	bin     string

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
		images: cfg.Images, byClass: maps.Clone(cfg.DefaultImages), log: cfg.Logger,
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
	r.ctx, r.close = context.WithCancelCause(context.Background()) //nolint:forbidigo // the one context that is nobody's but the Runtime's
	if err := r.open(&cfg); err != nil {
		return nil, &Error{Op: "new", Err: errors.Join(err, r.release())}
	}
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

func (r *Runtime) open(cfg *Config) error {
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
	if r.bin, err = installInit(executable, r.folder("bin")); err != nil {
		return err
	}
	if err := r.adopt(); err != nil {
		return err
	}
	r.sweepPrivateRoots()
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
	r.mu.Lock()
	list := make([]*instance, 0, len(r.sandboxes))
	for _, s := range r.sandboxes {
		list = append(list, s)
	}
	r.mu.Unlock()
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

// Close ends all sandboxes, waits for what it started, and gives back
// everything. It is no error to close twice.
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
			if err := s.end(); err != nil && !errors.Is(err, ErrEnded) {
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
	if r.private && r.root != "" {
		errs = append(errs, os.RemoveAll(r.root))
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	return errors.Join(errs...)
}
