package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// A ran is what a command or a snippet said and how it ended.
type ran struct {
	ExitCode       int // of a command
	Code           int // of a snippet
	Stdout, Stderr string
	Session        string `json:"session_id"`
	Files          []struct{ Name string }
}

// show shows it as if it had run here; where it did is said beside it.
func (r *ran) show() error {
	_, err := io.WriteString(os.Stdout, r.Stdout)
	_, err2 := io.WriteString(os.Stderr, r.Stderr)
	if r.Session == "" {
		return errors.Join(err, err2)
	}
	for _, f := range r.Files {
		fmt.Fprintln(os.Stderr, "made", inLine(f.Name))
	}
	fmt.Fprintln(os.Stderr, "session", inLine(r.Session))
	return errors.Join(err, err2)
}

// runCmd is run_in_sandbox.
type runCmd struct {
	ID         string   `json:"id" required:"" help:"The sandbox."`
	Argv       []string `sep:"none" json:"argv,omitempty" help:"The program and its arguments; repeated for each."`
	Command    string   `json:"command,omitempty" help:"A shell line instead."`
	Dir        string   `json:"dir,omitempty" help:"Where it starts."`
	Stdin      string   `json:"stdin,omitempty" help:"What it reads."`
	TimeoutSec seconds  `json:"timeoutSec,omitempty" placeholder:"SECONDS" help:"How long it may run, in seconds or as 1h30m."`
	Session    string   `json:"session,omitempty" help:"An agent's session to narrate the run to."`
	Events     bool     `json:"events,omitempty" help:"Its output is JSON lines, each an event of the session."`
	Blind      []string `sep:"none" json:"blind,omitempty" placeholder:"SECRET" help:"A secret to hide in what it says; may be repeated."`
	Env        []string `sep:"none" json:"env,omitempty" placeholder:"KEY=VALUE" help:"Added to the environment; may be repeated."`
	User       *user    `json:"user,omitempty" placeholder:"UID:GID" help:"Who it runs as."`
	Limits     []limit  `sep:"none" json:"limits,omitempty" placeholder:"NAME=N" help:"A resource limit, as cpu=10; may be repeated."`
}

// Run runs.
func (c *runCmd) Run(a *app) error { return a.showRun(post("v1", "sandbox", "run"), c) }

// showRun shows how something that ran ended: on a terminal as if it had run there.
func (a *app) showRun(c call, body any) error {
	c, err := c.value(body)
	if err != nil {
		return err
	}
	answer, err := a.answer(c)
	if err != nil {
		return &exitError{exitLost, err}
	}
	var out ran
	if err := json.Unmarshal(answer, &out); err != nil {
		return &exitError{exitLost, fmt.Errorf("the server's answer: %w", err)}
	}
	if a.format() == "table" || a.format() == "name" && out.Session == "" {
		err = out.show()
	} else {
		err = a.print(os.Stdout, answer)
	}
	code := out.ExitCode + out.Code // one of which is there
	switch {
	case err != nil || code == 0:
		return err
	case code < 0 || code > 255: // which would be another one, or none
		code = exitLost
	}
	return &exitError{code: code}
}

// A user is who a command runs as, by number.
type user struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// UnmarshalText reads UID:GID, or one number for both.
func (u *user) UnmarshalText(b []byte) error {
	uid, gid, two := strings.Cut(string(b), ":")
	if !two {
		gid = uid
	}
	id, err := strconv.ParseUint(uid, 10, 32)
	group, err2 := strconv.ParseUint(gid, 10, 32)
	switch {
	case err != nil || err2 != nil:
		return errors.New("want UID:GID, by number")
	case id == 0: // which stands for the default where there is no other way to say it
		return errors.New("commands do not run as root")
	}
	u.UID, u.GID = uint32(id), uint32(group)
	return nil
}

// A limit is a resource limit.
type limit struct {
	Resource string `json:"resource"`
	Value    int64  `json:"value"`
}

// UnmarshalText reads NAME=N.
func (l *limit) UnmarshalText(b []byte) error {
	name, value, _ := strings.Cut(string(b), "=")
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return errors.New("want NAME=N, as cpu=10")
	}
	l.Resource, l.Value = name, n
	return nil
}
