package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/hanzoai/sandbox/internal/guest/wire"
	"github.com/hanzoai/sandbox/internal/problem"
	"github.com/hanzoai/sandbox/internal/socket"
	"github.com/hanzoai/sandbox/sandbox"
)

// execSocket runs a command over a socket, which lasts as long as it does.
func (s *server) execSocket(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if err := s.mayExec(r, id); err != nil {
		s.fail(w, r, err)
		return
	}
	giveBack, err := s.slots.take(r.Context(), principalOf(r.Context()).Org)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer giveBack()
	conn, err := accept(w, r)
	if err != nil {
		return
	}
	ctx, end := s.lastingSocket(r, principalOf(r.Context()))
	defer end()
	ctx, leave := s.runs.enter(ctx, id)
	defer leave()
	x := newExecution(conn)
	last := x.run(ctx, sandbox.Handle(s.sandboxes(r.Context()), id), s)
	conn.SetWriteDeadline(time.Now().Add(s.cfg.Limits.BodyTime)) //nolint:errcheck // it can be set
	x.sendFrame(last)                                            //nolint:errcheck // the peer may be gone
	conn.Finish()                                                //nolint:errcheck // as above
}

// mayExec refuses while there can still be a status.
func (s *server) mayExec(r *http.Request, id string) error {
	info, err := s.sandboxes(r.Context()).Info(r.Context(), id)
	if err != nil {
		return err
	}
	if info.Status != sandbox.StatusRunning {
		return &sandbox.ConflictError{ID: id, Status: info.Status, Why: "sandbox is " + string(info.Status)}
	}
	return upgradable(r)
}

// An execution is a command on a socket: the init's side of its protocol.
type execution struct {
	conn   *socket.Conn
	frames *wire.Reader

	stdin   *stdin
	sinks   map[wire.Kind]*sink
	signals chan syscall.Signal
	screen  *sandbox.Terminal

	mu sync.Mutex // of what is sent
}

// signalsKept is how many signals wait for the program; more are lost, as a
// kernel would have merged them.
const signalsKept = 64

func newExecution(conn *socket.Conn) *execution {
	return &execution{
		conn: conn, frames: wire.NewReader(conn), sinks: map[wire.Kind]*sink{},
		signals: make(chan syscall.Signal, signalsKept),
	}
}

var errKilled = errors.New("killed by the peer")

// run runs the command and returns the last frame.
func (x *execution) run(ctx context.Context, sb *sandbox.Sandbox, s *server) []byte {
	patience := s.cfg.Limits.BodyTime
	x.conn.SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // it can be set
	cmd, err := x.request(sb)
	x.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	if err != nil {
		return x.refusal(err, s)
	}
	if cmd.Terminal == nil { // at which somebody sits
		cmd.Timeout = s.cfg.Limits.RunTime
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	listening.Go(func() { x.listen(cancel) })
	listening.Go(func() { x.watch(ctx, sb, patience) })
	defer listening.Wait()
	defer cancel(nil)
	defer x.conn.SetReadDeadline(past) // which ends the listening
	err = cmd.Run(ctx)
	x.close()
	return x.ending(ctx, err, s)
}

// watch gives up on a peer that takes nothing of what a sandbox had to say
// that is gone: a slot is not held for it.
func (x *execution) watch(ctx context.Context, sb *sandbox.Sandbox, patience time.Duration) {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for gone := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		info, err := sb.Info(ctx)
		if runs := err == nil && info.Status == sandbox.StatusRunning; runs || !gone {
			gone = !runs
			continue
		}
		x.close()
		x.conn.SetWriteDeadline(past) //nolint:errcheck // it can be set
		return
	}
}

// request reads the first frame.
func (x *execution) request(sb *sandbox.Sandbox) (*sandbox.Cmd, error) {
	kind, payload, err := x.frames.Next()
	if err != nil {
		return nil, problem.New("canceled", "the peer went before it asked for anything")
	}
	var req wire.Request
	if kind != wire.KindRequest || req.Decode(payload) != nil || req.Op != wire.OpExec {
		return nil, problem.New("invalid", "the first frame is to be a request to execute")
	}
	cmd := sb.Command("")
	cmd.Args, cmd.Env, cmd.Dir = req.Argv, req.Env, req.Dir
	cmd.WaitDelay, cmd.Signals = req.WaitDelay, x.signals
	cmd.User = sandbox.User{UID: req.UID, GID: req.GID}
	for _, l := range req.Limits {
		cmd.Limits = append(cmd.Limits, sandbox.Rlimit(l))
	}
	if req.Terminal {
		x.screen = sandbox.NewTerminal(req.Rows, req.Cols)
		cmd.Terminal = x.screen
	}
	x.connect(cmd, req.Streams)
	return cmd, nil
}

func (x *execution) connect(cmd *sandbox.Cmd, streams wire.Streams) {
	if streams&wire.Stdin != 0 {
		x.stdin = newStdin(x)
		cmd.Stdin = x.stdin
	}
	if streams&wire.Stdout != 0 {
		x.sinks[wire.KindStdout] = newSink(x, wire.KindStdout)
		cmd.Stdout = x.sinks[wire.KindStdout]
	}
	switch {
	case streams&wire.Merged != 0:
		cmd.Stderr = cmd.Stdout
	case streams&wire.Stderr != 0:
		x.sinks[wire.KindStderr] = newSink(x, wire.KindStderr)
		cmd.Stderr = x.sinks[wire.KindStderr]
	}
}

// listen takes what the peer says, until it goes. It may ask for the end, and
// then still takes what the command had to say.
func (x *execution) listen(cancel context.CancelCauseFunc) {
	defer x.close() // nobody takes or gives any more
	defer cancel(context.Canceled)
	for {
		kind, payload, err := x.frames.Next()
		if err != nil {
			return
		}
		switch kind {
		case wire.KindStdin:
			if !x.stdin.add(payload) {
				return // it does not keep to the window
			}
		case wire.KindCloseStdin:
			x.stdin.end()
		case wire.KindCredit:
			if stream, n, err := wire.ParseCredit(payload); err == nil && x.sinks[stream] != nil {
				x.sinks[stream].credit(n)
			}
		case wire.KindClose:
			if len(payload) == 1 && x.sinks[wire.Kind(payload[0])] != nil {
				x.sinks[wire.Kind(payload[0])].close()
			}
		case wire.KindSignal:
			x.signal(payload)
		case wire.KindResize:
			if rows, cols, err := wire.ParseSize(payload); err == nil && x.screen != nil {
				x.screen.Resize(rows, cols) //nolint:errcheck // a size that cannot be changes nothing
			}
		case wire.KindKill:
			cancel(errKilled)
		default:
			return
		}
	}
}

func (x *execution) signal(payload []byte) {
	if len(payload) != 1 {
		return
	}
	select {
	case x.signals <- syscall.Signal(payload[0]):
	default:
	}
}

// close ends what waits for the peer.
func (x *execution) close() {
	x.stdin.end()
	for _, s := range x.sinks {
		s.close()
	}
}

func (x *execution) send(kind wire.Kind, payload []byte) error {
	return x.sendFrame(wire.AppendFrame(nil, kind, payload))
}

func (x *execution) sendFrame(frame []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, err := x.conn.Write(frame)
	return err
}

// ending is the last frame of a command that was run.
func (x *execution) ending(ctx context.Context, err error, s *server) []byte {
	status, err := ending(err)
	if errors.Is(err, errSinkClosed) { // the peer's own wish, of a program that succeeded
		status, err = sandbox.ExitStatus{Cause: sandbox.CauseExit}, nil
	}
	if err != nil {
		return x.refusal(err, s)
	}
	killed := errors.Is(context.Cause(ctx), errKilled) && status.Cause == sandbox.CauseKilled
	if killed || status.Cause == sandbox.CauseExit || status.Cause == sandbox.CauseSignal {
		exit := wire.Exit{Code: status.Code, Signal: status.Signal, Killed: killed}
		return wire.AppendFrame(nil, wire.KindExit, exit.Append(nil))
	}
	return (&socket.Failure{Cause: status.Cause}).Frame()
}

// refusal is the last frame of a command that did not run.
func (x *execution) refusal(err error, s *server) []byte {
	if start, ok := errors.AsType[*sandbox.StartError](err); ok {
		e := wire.Error{Phase: wire.PhaseStart, Errno: startErrno(start), Path: start.Path}
		if text := start.Err.Error(); text != e.Errno.Error() {
			e.Text = text
		}
		return wire.AppendFrame(nil, wire.KindError, e.Append(nil))
	}
	p, known := problem.Of(err)
	if !known {
		s.log.Error("a command's socket failed", "error", err)
	}
	return (&socket.Failure{Problem: &p.Details}).Frame()
}

// startErrno is the system's name for why a program was not started.
func startErrno(e *sandbox.StartError) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](e.Err); ok {
		return errno
	}
	switch {
	case errors.Is(e, fs.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(e, fs.ErrPermission):
		return syscall.EACCES
	}
	return syscall.EINVAL
}
