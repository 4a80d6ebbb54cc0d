package sandboxtest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hanzoai/sandbox/internal/workpath"
	"github.com/hanzoai/sandbox/sandbox"
)

// A Program is what runs in a sandbox of a Memory. It returns its exit code,
// and soon after ctx ends, which is how it is killed.
type Program func(ctx context.Context, p *Proc) int

// A Proc is a running Program, as the program itself knows it.
type Proc struct {
	Args     []string // with the program's name, as of a Cmd
	Env      []string // KEY=value, each key once
	Dir      string   // absolute
	User     sandbox.User
	Limits   []sandbox.Rlimit
	Terminal *sandbox.Terminal

	Stdin          io.Reader // never nil; ends with the program
	Stdout, Stderr io.Writer // never nil

	job    *job
	pid    int
	ctx    context.Context //nolint:containedctx // the process's own life
	cancel context.CancelFunc
	done   chan struct{}      // closed when it has ended
	status sandbox.ExitStatus // valid then

	mu     sync.Mutex
	killed syscall.Signal
}

// Getenv returns a variable of the program's environment, or "".
func (p *Proc) Getenv(name string) string {
	for _, kv := range p.Env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// ReadFile reads a file. Name is relative to Dir, or absolute.
func (p *Proc) ReadFile(name string) ([]byte, error) {
	data, err := p.job.box.files.read(p.path(name))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return data, nil
}

// WriteFile makes or overwrites a file, as os.WriteFile does.
func (p *Proc) WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := p.create(name, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return err
}

// create empties a file or makes one, and returns what appends to it.
func (p *Proc) create(name string, perm fs.FileMode) (io.Writer, error) {
	n, err := p.job.box.files.create(p.path(name), perm)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &appender{tree: p.job.box.files, node: n}, nil
}

func (p *Proc) path(name string) string { return workpath.Dir(p.Dir, name) }

// start starts the program, which the job's ctx ends.
func (p *Proc) start(program Program) {
	p.open(p.job.ctx)
	p.job.box.work.Go(func() { p.run(program) })
}

// call runs the program to its end. It is a child of parent, and ends with it.
func (p *Proc) call(parent *Proc, program Program) sandbox.ExitStatus {
	p.open(parent.ctx)
	p.run(program)
	return p.status
}

func (p *Proc) open(ctx context.Context) {
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.done = make(chan struct{})
	p.job.users.Add(1)
	p.job.box.add(p)
	holding(p, (*output).hold)
}

func (p *Proc) run(program Program) {
	code := 255
	defer func() { // also when a test ends from inside the program
		p.status = p.end(code)
		p.cancel()
		p.job.box.remove(p)
		holding(p, (*output).release)
		close(p.done)
		p.job.leave()
	}()
	code = program(p.ctx, p)
}

// end is how a program has ended that returned code.
func (p *Proc) end(code int) sandbox.ExitStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.job.ctx.Err() != nil:
		return cutStatus(context.Cause(p.job.ctx))
	case p.killed != 0:
		return sandbox.ExitStatus{Cause: sandbox.CauseSignal, Code: 128 + int(p.killed), Signal: p.killed}
	}
	return sandbox.ExitStatus{Cause: sandbox.CauseExit, Code: code & 0xff}
}

// kill sends a signal. Programs cannot catch any.
func (p *Proc) kill(sig syscall.Signal) {
	switch sig {
	case 0, syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed == 0 {
		p.killed = sig
	}
	p.cancel()
}

// child is a Proc that inherits everything but its arguments.
func (p *Proc) child(args []string) *Proc {
	return &Proc{
		Args: args, Env: p.Env, Dir: p.Dir, User: p.User, Limits: p.Limits, Terminal: p.Terminal,
		Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, job: p.job,
	}
}

// binDirs are where the programs of the vocabulary are.
var binDirs = []string{"/bin", "/usr/bin", "/usr/local/bin"}

// lookup finds a program as execvp does.
func (b *box) lookup(name, dir string) (Program, error) {
	if !strings.Contains(name, "/") {
		return b.program(name)
	}
	if full := workpath.Dir(dir, name); slices.Contains(binDirs, path.Dir(full)) {
		return b.program(path.Base(full))
	}
	full := workpath.Dir(dir, name)
	info, err := b.files.stat(full, true)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o100 == 0 {
		return nil, syscall.EACCES
	}
	return b.script(full)
}

func (b *box) program(name string) (Program, error) {
	if program, ok := b.programs[name]; ok {
		return program, nil
	}
	return nil, syscall.ENOENT
}

// script is a file whose first line names its program.
func (b *box) script(full string) (Program, error) {
	data, err := b.files.read(full)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	line, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(line)
	if !ok || len(words) == 0 {
		return nil, syscall.ENOEXEC
	}
	program, err := b.program(path.Base(words[0]))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, p *Proc) int {
		p.Args = slices.Concat(words, []string{full}, p.Args[1:])
		return program(ctx, p)
	}, nil
}

// complain tells a program's user of an error, and returns its exit code.
func (p *Proc) complain(err error) int {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return 1
	}
	io.WriteString(p.Stderr, path.Base(p.Args[0])+": "+err.Error()+"\n")
	return 1
}
