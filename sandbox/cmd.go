package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/headtail"
)

// A User is the user and group that a command runs as, by number. Root is not
// to be had.
type User struct{ UID, GID uint32 }

// A Rlimit is a resource limit of a command and of whatever it starts, as by
// setrlimit(2), soft and hard alike.
type Rlimit struct {
	Resource int // syscall.RLIMIT_AS and so on
	Value    uint64
}

// A Cmd is a program to run in a sandbox. As with a Cmd of os/exec its fields
// are set before Run and it is used once; unlike the Sandbox it is not safe
// for concurrent use.
type Cmd struct {
	// Args is the program and its arguments. They are passed as they are: no
	// shell splits or expands them. A program without a slash is looked for
	// along PATH, inside.
	Args []string

	// Env is added to the sandbox's environment, as KEY=value. Nothing is
	// taken from this process's own.
	Env []string

	// Dir is where the program starts: the workdir, or a path that is
	// absolute or relative to it. It must exist.
	Dir string

	// User is who the program runs as; the zero User is 1000:1000, who owns
	// the files in the workdir. Root is refused: it would have the rights of
	// the sandbox's own init.
	User User

	// Limits are resource limits of this command. With any, starting it takes
	// a few milliseconds more.
	Limits []Rlimit

	// Stdin is what the program reads. Nil is an end of file at once. A Read
	// may still be under way when Run returns, because it cannot be called
	// back.
	Stdin io.Reader

	// Stdout and Stderr take what the program writes; nil discards it. A
	// writer that blocks makes the program wait; one that fails makes it
	// find its pipe closed. If both are the same writer, the program has one
	// pipe, and one goroutine at a time writes.
	Stdout, Stderr io.Writer

	// Terminal gives the program a terminal for its standard streams. Stdout
	// takes what appears on it; Stderr must be nil.
	Terminal *Terminal

	// Signals are sent to the program's process group as they arrive; on a
	// terminal, to its foreground process group.
	Signals <-chan syscall.Signal

	// Timeout, if positive, ends the program with everything it started.
	Timeout time.Duration

	// WaitDelay is how long, after the program itself has ended, Run waits
	// for others that still hold its output open; 0 is 100 ms. What the
	// program itself wrote is always delivered, and those others live on
	// until the sandbox ends.
	WaitDelay time.Duration

	sandbox *Sandbox
}

// defaultWaitDelay is long enough for the tail of a pipeline, and short
// enough for a caller who started something in the background.
const defaultWaitDelay = 100 * time.Millisecond

// Command returns a Cmd that runs the named program with the arguments.
func (s *Sandbox) Command(name string, arg ...string) *Cmd {
	return &Cmd{Args: append([]string{name}, arg...), sandbox: s}
}

// Run runs the program to its end. It returns nil if the program exited with
// code 0, an *ExitError if it ended in any other way, and a *StartError if it
// could not be started. Any other error means that the call failed, or Stdin,
// Stdout or Stderr did while the program succeeded.
//
// When ctx ends, or Timeout passes, everything the program started is killed,
// wherever it hid, and Run returns within a second; what had been written
// until then has been delivered.
func (c *Cmd) Run(ctx context.Context) error {
	if c.sandbox == nil {
		return &Error{Op: "run", Err: invalid("a Cmd is made by Sandbox.Command")}
	}
	p, err := c.process()
	if err != nil {
		return &Error{Op: "run", ID: c.sandbox.id, Err: err}
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, ErrTimeout)
		defer cancel()
	}
	status, err := c.sandbox.driver.Exec(ctx, c.sandbox.id, p)
	if status.Cause == "" || status.Success() {
		return err
	}
	return &ExitError{ExitStatus: status, Err: errors.Join(cutShort(ctx, c.id(), status.Cause), err)}
}

// cutShort is the error behind a cause that is not the program's own.
func cutShort(ctx context.Context, id string, cause Cause) error {
	switch cause {
	case CauseTimeout:
		return cmp.Or(context.Cause(ctx), ErrTimeout)
	case CauseKilled:
		return cmp.Or(context.Cause(ctx), context.Canceled)
	case CauseEnded:
		return ErrEnded
	case CauseLost:
		return ErrLost
	case CausePaused:
		return notNow(id, StatusParked)
	case CauseServer:
		return errDetached
	default: // the program's own end
		return nil
	}
}

func (c *Cmd) process() (*Process, error) {
	if err := validate(c); err != nil {
		return nil, err
	}
	p := &Process{
		Args: c.Args, Env: c.Env, Dir: c.Dir, User: c.User, Limits: c.Limits,
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		Terminal: c.Terminal, Signals: c.Signals,
		Timeout: c.Timeout, WaitDelay: c.WaitDelay,
	}
	if p.User == (User{}) {
		p.User = User{UID: defaultUID, GID: defaultUID}
	}
	if p.WaitDelay == 0 {
		p.WaitDelay = defaultWaitDelay
	}
	return p, nil
}

// stderrKept is how much of each end of standard error Output keeps.
const stderrKept = 32 << 10

// Output runs the program and returns what it wrote to standard output. If it
// fails, and Stderr was not set, the *ExitError has what it wrote there.
func (c *Cmd) Output(ctx context.Context) ([]byte, error) {
	if c.Stdout != nil {
		return nil, &Error{Op: "output", ID: c.id(), Err: invalid("Stdout is already set")}
	}
	var stdout bytes.Buffer
	c.Stdout = &stdout
	var stderr *headtail.Buffer
	if c.Stderr == nil && c.Terminal == nil {
		stderr = &headtail.Buffer{Limit: stderrKept}
		c.Stderr = stderr
	}
	err := c.Run(ctx)
	if e, ok := errors.AsType[*ExitError](err); ok && stderr != nil {
		e.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the program and returns what it wrote to standard
// output and standard error, in the order in which it did.
func (c *Cmd) CombinedOutput(ctx context.Context) ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, &Error{Op: "output", ID: c.id(), Err: invalid("Stdout or Stderr is already set")}
	}
	var both bytes.Buffer
	c.Stdout = &both
	if c.Terminal == nil {
		c.Stderr = &both
	}
	err := c.Run(ctx)
	return both.Bytes(), err
}

func (c *Cmd) id() string {
	if c.sandbox == nil {
		return ""
	}
	return c.sandbox.id
}

// A Terminal is the size of a command's terminal, which may change while the
// command runs. It is safe for concurrent use.
type Terminal struct {
	mu         sync.Mutex
	rows, cols uint16
	resized    chan struct{}
	unwatched  bool
	watch      func(watched bool) // tells the Runtime; nil while no command runs on it
}

// NewTerminal returns a terminal of the given size. TERM is xterm-256color
// unless the command's Env says otherwise.
func NewTerminal(rows, cols uint16) *Terminal {
	return &Terminal{rows: rows, cols: cols, resized: make(chan struct{}, 1)}
}

// Resize changes the size; the program gets SIGWINCH. A terminal has 1 to
// 1,000 rows and columns.
func (t *Terminal) Resize(rows, cols uint16) error {
	if err := checkSize(rows, cols); err != nil {
		return err
	}
	t.mu.Lock()
	t.rows, t.cols = rows, cols
	t.mu.Unlock()
	select {
	case t.resized <- struct{}{}:
	default: // the news is on its way already
	}
	return nil
}

// Size returns the size as it is now.
func (t *Terminal) Size() (rows, cols uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows, t.cols
}

// Watch says whether anybody looks at the terminal, as is so until it says
// otherwise. A sandbox with nothing but terminals that nobody looks at becomes
// idle as one without any.
func (t *Terminal) Watch(watched bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unwatched == !watched {
		return
	}
	t.unwatched = !watched
	if t.watch != nil {
		t.watch(watched)
	}
}

// begin has watch told what Watch is, until the returned function is called.
// To watch it is at the beginning and at the end as if somebody looked.
func (t *Terminal) begin(watch func(watched bool)) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch = watch
	if t.unwatched {
		watch(false)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.watch = nil
		if t.unwatched {
			watch(true)
		}
	}
}

// Resized receives after the size has changed, for Drivers.
func (t *Terminal) Resized() <-chan struct{} { return t.resized }
