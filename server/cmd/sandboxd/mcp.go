package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
	"github.com/hanzoai/sandbox/server"
	"github.com/hanzoai/sandbox/server/mcp"
)

// agents is the command that serves one agent over standard input and output.
// It needs no server: the sandboxes are its own, and end with it.
func agents(ctx context.Context, env *environment, args []string) (err error) {
	s := &settings{}
	var root string
	var bare bool
	flags := newFlags("sandboxd mcp", env)
	flags.StringVar(&root, "root", "", "a `folder` for what is to outlive this program, as the files of projects; by default nothing does")
	flags.StringVar(&s.runsc, "runsc", "", "a `runsc` to use instead of the one inside")
	flags.BoolVar(&bare, "bare", false, "leaves out run_code, run_command, read_file, write_file and list_files")
	flags.DurationVar(&s.limits.RunTime, "run-time", 15*time.Minute, "how long a command may run")
	flags.DurationVar(&s.maxLife, "max-life", 24*time.Hour, "the longest that a sandbox may live")
	flags.DurationVar(&s.idle, "idle", time.Hour, "how long a sandbox may be unused")
	flags.StringVar(&s.images.byClass, "images", "", "what leases get that name no image, as `class=image,…`, or an image for all; by default host")
	flags.StringVar(&s.images.registries, "registries", "", "`hosts` of registries that leases may name images of")
	flags.StringVar(&s.images.folders, "image-folders", "", "`folders` in which leases may name archives and root file systems")
	if err := parse(flags, env, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%w: sandboxd mcp takes flags alone", errUsage)
	}
	if err := s.images.check(); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(env.stderr, nil))
	s.root = cmp.Or(root, defaultRoot) // where images are looked for
	images, err := image.Open(s.imageConfig())
	if err != nil {
		return err
	}
	rt, err := sandbox.New(sandbox.Config{
		Root: root, Runsc: s.runsc, MaxLife: s.maxLife, Idle: s.idle, Images: images, Classes: s.classes(), Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	tools, err := ownTools(rt, s, bare, log)
	if err != nil {
		return err
	}
	return tools.Serve(ctx, env.stdin, nopCloser{env.stdout})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// ownTools are the tools over a Runtime, for whoever started this program.
func ownTools(rt *sandbox.Runtime, s *settings, bare bool, log *slog.Logger) (*mcp.Server, error) {
	it, err := exec.New(rt, exec.Config{Timeout: s.limits.RunTime})
	if err != nil {
		return nil, err
	}
	key, sandboxes := server.NewKey(), server.Runtime(rt)
	handler, err := server.New(server.Config{
		Sandboxes: sandboxes, Interpreter: server.Interpret(it, sandboxes), Keys: onlyKey(server.HashKey(key)),
		Limits: s.limits, Agents: server.Agents{Off: true}, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return mcp.New(mcp.Config{
		API: handler, Header: http.Header{"Authorization": {"Bearer " + key}}, Bare: bare, Logger: log,
	})
}

// onlyKey is the key of a server without a network.
type onlyKey [sha256.Size]byte

func (k onlyKey) Key(_ context.Context, hash [sha256.Size]byte) (server.Key, error) {
	if hash != k {
		return server.Key{}, server.ErrNoKey
	}
	return server.Key{ID: "own", Org: "default"}, nil
}
