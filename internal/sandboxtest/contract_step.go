package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/sandbox/sandbox"
)

// bounded returns the context of a step of a test.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// within returns what f does, which must return in time.
func within(t *testing.T, limit time.Duration, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	return await(t, limit, done)
}

func await(t *testing.T, limit time.Duration, done <-chan error) error {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		t.Fatalf("has not returned after %v", limit)
		return nil
	}
}

// outputOf returns what a program that succeeds prints.
func outputOf(t *testing.T, sb *sandbox.Sandbox, name string, arg ...string) string {
	t.Helper()
	out, err := sb.Command(name, arg...).Output(bounded(t))
	if err != nil {
		t.Fatalf("%s %q: %v", name, arg, err)
	}
	return string(out)
}

// describe returns what there is to know of a sandbox.
func describe(t *testing.T, sb *sandbox.Sandbox) sandbox.Info {
	t.Helper()
	info, err := sb.Info(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// lengthOf returns how long a lease is as it was taken.
func lengthOf(info sandbox.Info) time.Duration { return info.Expires.Sub(info.Created) }

// conflictOf wants err to be a conflict with a sandbox in that status.
func conflictOf(t *testing.T, err error, with *sandbox.Sandbox, status sandbox.Status) {
	t.Helper()
	e, ok := errors.AsType[*sandbox.ConflictError](err)
	switch {
	case !ok || !errors.Is(err, sandbox.ErrConflict):
		t.Fatalf("%T (%v) is not a ConflictError", err, err)
	case e.ID != with.ID() || e.Status != status:
		t.Errorf("a conflict with sandbox %s, %s; want %s, %s", e.ID, e.Status, with.ID(), status)
	case e.Why == "":
		t.Error("a conflict that does not say what does not fit")
	}
}

// exitOf returns how the program ended of which err tells.
func exitOf(t *testing.T, err error) *sandbox.ExitError {
	t.Helper()
	e, ok := errors.AsType[*sandbox.ExitError](err)
	if !ok {
		t.Fatalf("%T (%v) is not an ExitError", err, err)
	}
	return e
}

// write makes a file.
func write(t *testing.T, sb *sandbox.Sandbox, name, content string, perm fs.FileMode) {
	t.Helper()
	if err := sb.WriteFile(bounded(t), name, strings.NewReader(content), perm); err != nil {
		t.Fatal(err)
	}
}

// read returns a file's content.
func read(t *testing.T, sb *sandbox.Sandbox, name string) string {
	t.Helper()
	b, err := fs.ReadFile(sb.FS(bounded(t)), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stat describes a file.
func stat(t *testing.T, sb *sandbox.Sandbox, name string) fs.FileInfo {
	t.Helper()
	info, err := fs.Stat(sb.FS(bounded(t)), name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// list returns the names in a directory.
func list(t *testing.T, sb *sandbox.Sandbox, name string) []string {
	t.Helper()
	entries, err := fs.ReadDir(sb.FS(bounded(t)), name)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// A running command is one that has printed something and goes on.
type running struct {
	*notice
	done chan error
}

// start starts a command whose Stdout is free, and returns once it prints.
func start(ctx context.Context, t *testing.T, cmd *sandbox.Cmd) *running {
	t.Helper()
	r := &running{notice: newNotice(), done: make(chan error, 1)}
	cmd.Stdout = r.notice
	go func() { r.done <- cmd.Run(ctx) }()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-r.written:
	case err := <-r.done:
		t.Fatalf("%q ended without a word: %v", cmd.Args, err)
	case <-late.C:
		t.Fatalf("%q says nothing", cmd.Args)
	}
	return r
}

// A notice is a buffer that tells when something has been written.
type notice struct {
	bytes.Buffer
	once    sync.Once
	written chan struct{}
}

func newNotice() *notice { return &notice{written: make(chan struct{})} }

func (n *notice) Write(p []byte) (int, error) {
	defer n.once.Do(func() { close(n.written) })
	return n.Buffer.Write(p)
}
