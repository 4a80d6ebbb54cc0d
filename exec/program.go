package exec

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// program builds the program, unless that has been done, and runs it.
func (r *run) program(ctx context.Context) (sandbox.ExitStatus, error) {
	r.deadline = time.Now().Add(r.timeout())
	if len(r.lang.Build) > 0 && !r.built {
		status, err := r.build(ctx)
		if err != nil || !status.Success() {
			return status, err
		}
	}
	argv := append(r.place.fill(r.lang.Run), r.snippet.Args...)
	cmd := r.command(argv)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.snippet.Stdin, r.stdout, r.stderr
	return r.do(ctx, cmd)
}

// build runs the compiler. Of one that succeeds nothing is told: warnings are
// not the program's.
func (r *run) build(ctx context.Context) (sandbox.ExitStatus, error) {
	said := newOutput(r.it.cfg.MaxOutput, nil)
	cmd := r.command(r.place.fill(r.lang.Build))
	cmd.Stdout, cmd.Stderr = said, said
	if !r.lang.Script {
		cmd.Dir = r.place.dir
	}
	status, err := r.do(ctx, cmd)
	if err != nil || !status.Success() {
		ctx, cancel := context.WithDeadline(ctx, r.deadline.Add(explainTimeout))
		defer cancel()
		r.stderr.say(ctx, said.String())
		return status, err
	}
	if r.lang.Includes == nil {
		return status, nil
	}
	return status, r.session.WriteFile(ctx, r.stampName(), strings.NewReader(""), 0o644)
}

// stampName is a file beside a program that was built to the end.
func (r *run) stampName() string { return path.Join(r.place.dir, "built") }

// isBuilt reports whether the same program was the last of its language that
// was built in the session, and nothing but its text is part of it.
func (r *run) isBuilt(ctx context.Context) bool {
	if r.lang.Includes == nil || r.lang.Includes.MatchString(r.code) {
		return false
	}
	_, err := regular(r.session.files(ctx), strings.TrimPrefix(r.stampName(), r.session.work+"/"))
	return err == nil
}

func (r *run) command(argv []string) *sandbox.Cmd {
	cmd := r.session.Command(argv[0], argv[1:]...)
	cmd.Env = slices.Concat(runEnv, r.place.fill(r.lang.Env))
	if a := r.lang.aid; a != nil && a.wants.MatchString(r.code) {
		cmd.Env = append(cmd.Env, r.place.fill(a.env)...)
	}
	cmd.Timeout = max(time.Until(r.deadline), 1)
	return cmd
}

// do runs a command. That it failed is no error.
func (r *run) do(ctx context.Context, cmd *sandbox.Cmd) (sandbox.ExitStatus, error) {
	err := cmd.Run(ctx)
	if err == nil {
		return sandbox.ExitStatus{Cause: sandbox.CauseExit}, nil
	}
	if e, ok := errors.AsType[*sandbox.ExitError](err); ok {
		return e.ExitStatus, nil
	}
	e, ok := errors.AsType[*sandbox.StartError](err)
	if ok && errors.Is(e, fs.ErrNotExist) && e.Path == cmd.Args[0] && slices.Contains(r.lang.Needs, e.Path) {
		return sandbox.ExitStatus{}, &ToolchainError{Language: r.lang.Name, Program: e.Path}
	}
	return sandbox.ExitStatus{}, err
}
