package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/hanzoai/sandbox/exec"
	"github.com/hanzoai/sandbox/sandbox"
	"github.com/hanzoai/sandbox/sandbox/image"
	"github.com/hanzoai/sandbox/server"
	"github.com/hanzoai/sandbox/server/store"
)

// A daemon is a server with what it stands on.
type daemon struct {
	settings *settings
	log      *slog.Logger
	store    *store.Store
	runtime  *sandbox.Runtime
	ready    *readiness
	http     *http.Server
}

func serve(ctx context.Context, env *environment) (err error) {
	s, err := settingsOf(env)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if s.debug {
		level = slog.LevelDebug
	}
	d := &daemon{settings: s, log: slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: level}))}
	// The address first: a second server is told before it touches anything.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if d.store, err = store.Open(ctx, s.root); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	if err := d.firstKey(ctx, env); err != nil {
		return err
	}
	if err := d.open(ctx); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "listening on http://%s\n", listener.Addr())
	return d.run(ctx, listener)
}

// firstKey makes the key that was given known; or, if there is none and no
// other way in, makes one and shows it, once.
func (d *daemon) firstKey(ctx context.Context, env *environment) error {
	if d.settings.key != "" {
		_, err := d.store.AddKey(ctx, d.settings.key, "default", "", false)
		return err
	}
	keys, err := d.store.Keys(ctx)
	if err != nil || len(keys) > 0 || d.settings.oidc.Issuer != "" {
		return err
	}
	secret := server.NewKey()
	if _, err := d.store.AddKey(ctx, secret, "default", "", false); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "key: %s\n(of the organisation default; it is shown this once)\n", secret)
	return nil
}

func (d *daemon) open(ctx context.Context) (err error) {
	s := d.settings
	images, err := image.Open(s.imageConfig())
	if err != nil {
		return err
	}
	meter := server.NewMeter(d.store, s.fees, d.log)
	d.runtime, err = sandbox.New(sandbox.Config{
		Root: filepath.Join(s.root, "runtime"), Runsc: s.runsc, MaxLife: s.maxLife, Idle: s.idle,
		Images: images, Classes: s.classes(), Events: meter.Event, Logger: d.log,
	})
	if err != nil {
		return err
	}
	meter.Opened()
	if err := d.serveRuntime(ctx); err != nil {
		return errors.Join(err, d.runtime.Detach())
	}
	return nil
}

// running lists the sandboxes that have an engine.
func (d *daemon) running(ctx context.Context) (ids []string, err error) {
	for info, err := range d.runtime.List(ctx) {
		if err != nil {
			return nil, err
		}
		if info.Status == sandbox.StatusRunning {
			ids = append(ids, info.ID)
		}
	}
	return ids, nil
}

// settle has the ledger know what runs, after a life of which it was not told
// all, or a root that was removed.
func (d *daemon) settle(ctx context.Context) error {
	running, err := d.running(ctx)
	if err != nil {
		return err
	}
	return d.store.Keep(ctx, running)
}

// charge has what runs be charged for until now. What does not run any more is
// charged by its event, and never by mistake.
func (d *daemon) charge(ctx context.Context, now time.Time) error {
	running, err := d.running(ctx)
	if err != nil {
		return err
	}
	return d.store.Advance(ctx, running, now)
}

func (d *daemon) serveRuntime(ctx context.Context) error {
	if err := d.settle(ctx); err != nil {
		return err
	}
	s := d.settings
	d.ready = newReadiness(d.runtime)
	interpreter, err := exec.New(d.runtime, exec.Config{Timeout: s.limits.RunTime})
	if err != nil {
		return err
	}
	sandboxes := server.Runtime(d.runtime)
	handler, err := server.New(server.Config{
		Sandboxes: sandboxes, Interpreter: server.Interpret(interpreter, server.Gated(d.store, s.fees, sandboxes)), Keys: d.store, OIDC: s.oidc,
		Agents: s.agents, ServiceKey: s.serviceKey, Brand: s.brand, Ledger: d.store, Fees: s.fees,
		Ready: d.ready.check, Limits: s.limits, Logger: d.log,
		Previews: s.previews, Frames: strings.FieldsFunc(s.frames, func(r rune) bool { return r == ',' || r == ' ' }),
	})
	if err != nil {
		return err
	}
	d.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	return nil
}

// run serves until ctx ends, then lets requests end, then lets go of the
// sandboxes, which live on.
func (d *daemon) run(ctx context.Context, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- d.http.Serve(listener) }()
	go d.ready.check(ctx) //nolint:errcheck // whoever asks is told
	tick := time.NewTicker(d.settings.charge)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if err := d.charge(ctx, now); err != nil && ctx.Err() == nil {
				d.log.Error("running sandboxes were not charged", "error", err)
			}
		case err := <-served:
			d.ready.end()
			return errors.Join(err, d.runtime.Detach())
		case <-ctx.Done():
			return d.shutdown(context.WithoutCancel(ctx))
		}
	}
}

// lastWords is how long answers may take once the commands have been ended.
const lastWords = 5 * time.Second

func (d *daemon) shutdown(ctx context.Context) error {
	d.ready.end()
	d.log.Info("shutting down; sandboxes live on")
	graceful, cancel := context.WithTimeout(ctx, d.settings.grace)
	err := d.http.Shutdown(graceful)
	cancel()
	// This ends what still runs, and with it the answers that wait for it.
	detached := d.runtime.Detach()
	if err != nil {
		graceful, cancel = context.WithTimeout(ctx, lastWords)
		defer cancel()
		err = d.http.Shutdown(graceful)
	}
	if err != nil {
		err = d.http.Close()
	}
	return errors.Join(detached, err)
}
