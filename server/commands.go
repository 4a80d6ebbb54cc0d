package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/hanzoai/sandbox/internal/api"
	"github.com/hanzoai/sandbox/internal/blind"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/server/mcp"
)

// A command is what the bodies of exec and run have in common.
type command struct {
	ID         string
	Argv       []string
	Line       string
	Dir        string
	Stdin      string
	TimeoutSec int64
	Env        []string
	User       api.SandboxUser
	Limits     []api.SandboxLimit
	Blind      []string
	Narrator   Narrator
}

// PostSandboxByIDExec runs a command.
func (s typed) PostSandboxByIDExec(ctx context.Context, r api.PostSandboxByIDExecRequestObject) (api.PostSandboxByIDExecResponseObject, error) {
	b := r.Body
	c := &command{
		ID: r.ID, Argv: b.Argv, Line: b.Command, Dir: b.Dir, Stdin: b.Stdin, TimeoutSec: b.TimeoutSec,
		Env: b.Env, User: b.User, Limits: b.Limits,
	}
	if b.Stream {
		return s.stream(ctx, c)
	}
	result, err := s.run(ctx, c)
	return api.PostSandboxByIDExec200JSONResponse(result), err
}

// RunInSandbox runs a command, and narrates it.
func (s typed) RunInSandbox(ctx context.Context, r api.RunInSandboxRequestObject) (api.RunInSandboxResponseObject, error) {
	b := r.Body
	c := &command{
		ID: b.ID, Argv: b.Argv, Line: b.Command, Dir: b.Dir, Stdin: b.Stdin, TimeoutSec: b.TimeoutSec,
		Env: b.Env, User: b.User, Limits: b.Limits, Blind: b.Blind,
	}
	if b.Session != "" && s.cfg.Narrate != nil {
		// Nobody narrates a run in a sandbox that is not theirs.
		if _, err := s.sandboxes(ctx).Info(ctx, b.ID); err != nil {
			return nil, err
		}
		p := principalOf(ctx)
		c.Narrator = s.cfg.Narrate(ctx, Narration{Owner: p.lessee(), Sandbox: b.ID, Session: b.Session, Events: b.Events})
	}
	if b.Stream {
		return s.stream(ctx, c)
	}
	result, err := s.run(ctx, c)
	return api.RunInSandbox200JSONResponse(result), err
}

// StopRun stops commands.
func (s typed) StopRun(ctx context.Context, r api.StopRunRequestObject) (api.StopRunResponseObject, error) {
	if _, err := s.sandboxes(ctx).Info(ctx, r.Body.ID); err != nil {
		return nil, err
	}
	return api.StopRun200JSONResponse{Stopped: int64(s.runs.stop(r.Body.ID))}, nil
}

// A Narration says which run is to be narrated, and to whom.
type Narration struct {
	Owner   sandbox.Owner
	Sandbox string
	Session string
	Events  bool // standard output is JSON lines, each an event
}

// A Narrator is told a run as it happens, with its secrets hidden. It is not
// to block: the command waits meanwhile.
type Narrator interface {
	Stdout(p []byte)
	Stderr(p []byte)
	// Ended is told last: how the command ended, or that the call failed.
	Ended(status sandbox.ExitStatus, err error)
}

// run runs a command to its end and returns what it said.
func (s typed) run(ctx context.Context, c *command) (api.SandboxExecResult, error) {
	var stdout, stderr capture
	status, err := s.carry(ctx, c, &stdout, &stderr)
	if err != nil {
		return api.SandboxExecResult{}, err
	}
	result := api.SandboxExecResult{
		ExitCode: int64(status.Code), Cause: string(status.Cause), Stdout: stdout.String(), Stderr: stderr.String(),
	}
	return result, cutShort(status)
}

// causeStart is the cause of a program that could not be started, beside those
// of package sandbox.
const causeStart sandbox.Cause = "start"

// cutShort is the error of a command whose end is no answer: what it had said
// until then would pass for all of it.
func cutShort(status sandbox.ExitStatus) error {
	switch status.Cause {
	case sandbox.CauseTimeout:
		return problem.New("timeout", "exec: its deadline has passed")
	case sandbox.CauseKilled:
		return problem.New("canceled", "exec: it was cancelled")
	case sandbox.CauseEnded:
		return problem.New("sandbox_ended", "exec: the sandbox has ended")
	case sandbox.CauseLost:
		return problem.New("sandbox_lost", "exec: the sandbox was lost")
	case sandbox.CausePaused:
		return problem.New("canceled", "exec: it was cancelled, as the sandbox was paused")
	case sandbox.CauseServer:
		return problem.New("closed", "exec: the server is shutting down")
	case sandbox.CauseExit, sandbox.CauseSignal, sandbox.CauseMemory, causeStart:
		return nil
	}
	return problem.New(problem.Internal, "exec: it ended for a reason that is not known")
}

// carry runs a command with its output going to stdout and stderr, and says
// how it ended. An error means that it did not run.
func (s typed) carry(ctx context.Context, c *command, stdout, stderr io.Writer) (sandbox.ExitStatus, error) {
	p := principalOf(ctx)
	cmd, err := c.cmd(sandbox.Handle(s.sandboxes(ctx), c.ID))
	if err != nil {
		return sandbox.ExitStatus{}, err
	}
	// Whose the sandbox is comes first: a stranger waits for nothing and stops
	// nothing.
	if _, err := s.sandboxes(ctx).Info(ctx, c.ID); err != nil {
		return sandbox.ExitStatus{}, err
	}
	giveBack, err := s.slots.take(ctx, p.Org)
	if err != nil {
		return sandbox.ExitStatus{}, err
	}
	defer giveBack()
	ctx, leave := s.runs.enter(ctx, c.ID)
	defer leave()
	cmd.Timeout = s.cfg.Limits.RunTime
	if limit := seconds(c.TimeoutSec); limit > 0 {
		cmd.Timeout = min(cmd.Timeout, limit)
	}
	if listener := mcp.Listener(ctx); listener != nil {
		stdout, stderr = io.MultiWriter(stdout, listener), io.MultiWriter(stderr, listener)
	}
	finish := c.connect(cmd, stdout, stderr)
	status, err := ending(cmd.Run(ctx))
	if start, ok := errors.AsType[*sandbox.StartError](err); ok {
		fmt.Fprintf(cmd.Stderr, "%s\n", problem.Brief(strings.TrimPrefix(start.Error(), "start ")))
		status, err = notStarted(start), nil
	}
	finish(status, err)
	return status, err
}

// connect puts what hides secrets and what narrates in the way of the output.
func (c *command) connect(cmd *sandbox.Cmd, stdout, stderr io.Writer) (finish func(sandbox.ExitStatus, error)) {
	if n := c.Narrator; n != nil {
		stdout, stderr = io.MultiWriter(stdout, writerFunc(n.Stdout)), io.MultiWriter(stderr, writerFunc(n.Stderr))
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	var blinders []*blind.Writer
	if hide := blind.Secrets(c.Blind); len(hide) > 0 {
		blinders = []*blind.Writer{blind.New(stdout, hide), blind.New(stderr, hide)}
		cmd.Stdout, cmd.Stderr = blinders[0], blinders[1]
	}
	return func(status sandbox.ExitStatus, err error) {
		for _, b := range blinders {
			b.Close() // of a writer that has failed, the run knows already
		}
		if c.Narrator != nil {
			c.Narrator.Ended(status, err)
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// cmd is the command that was asked for.
func (c *command) cmd(sb *sandbox.Sandbox) (*sandbox.Cmd, error) {
	argv := c.Argv
	if len(argv) == 0 {
		if c.Line == "" {
			return nil, problem.New("invalid", "argv or command is needed")
		}
		argv = []string{"sh", "-c", c.Line}
	}
	if len(c.Blind) > maxSecrets || len(strings.Join(c.Blind, "")) > maxSecretBytes {
		return nil, problem.New("invalid", fmt.Sprintf("blind: have at most %d secrets, of %d bytes in all", maxSecrets, maxSecretBytes))
	}
	cmd := sb.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	if c.Stdin != "" {
		cmd.Stdin = strings.NewReader(c.Stdin)
	}
	if c.User != (api.SandboxUser{}) {
		if c.User.UID < 1 || c.User.GID < 1 || c.User.UID > maxUID || c.User.GID > maxUID {
			return nil, problem.New("invalid", "user: uid and gid are 1 to 4294967294")
		}
		cmd.User = sandbox.User{UID: uint32(c.User.UID), GID: uint32(c.User.GID)}
	}
	for _, l := range c.Limits {
		resource, ok := resources[l.Resource]
		if !ok || l.Value < 0 {
			return nil, problem.New("invalid", "limits: have as, core, cpu, data, fsize, nofile and stack, of 0 or more")
		}
		cmd.Limits = append(cmd.Limits, sandbox.Rlimit{Resource: resource, Value: uint64(l.Value)})
	}
	return cmd, nil
}

const maxUID = 1<<32 - 2

// maxSecrets and maxSecretBytes bound what each byte of an output is compared
// with.
const (
	maxSecrets     = 256
	maxSecretBytes = 64 << 10
)

var resources = map[api.SandboxLimitResource]int{
	api.SandboxLimitResourceAs:     syscall.RLIMIT_AS,
	api.SandboxLimitResourceCore:   syscall.RLIMIT_CORE,
	api.SandboxLimitResourceCPU:    syscall.RLIMIT_CPU,
	api.SandboxLimitResourceData:   syscall.RLIMIT_DATA,
	api.SandboxLimitResourceFsize:  syscall.RLIMIT_FSIZE,
	api.SandboxLimitResourceNofile: syscall.RLIMIT_NOFILE,
	api.SandboxLimitResourceStack:  syscall.RLIMIT_STACK,
}

// ending turns what Cmd.Run returns back into a status: that a program failed
// is an answer here.
func ending(err error) (sandbox.ExitStatus, error) {
	if err == nil {
		return sandbox.ExitStatus{Cause: sandbox.CauseExit}, nil
	}
	if e, ok := errors.AsType[*sandbox.ExitError](err); ok {
		return e.ExitStatus, nil
	}
	return sandbox.ExitStatus{}, err
}

// notStarted is how a shell says that there is no such program.
func notStarted(e *sandbox.StartError) sandbox.ExitStatus {
	status := sandbox.ExitStatus{Cause: causeStart, Code: 126}
	if errors.Is(e, fs.ErrNotExist) {
		status.Code = 127
	}
	return status
}
