package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/hanzoai/sandbox/internal/problem"
)

type readCmd struct {
	ID   string `json:"id" required:"" help:"The sandbox."`
	Path string `json:"path,omitempty" help:"The file or directory; by default the working directory."`
}

// Run reads. As a table a file is shown as it is.
func (c *readCmd) Run(a *app) error {
	q, err := post("v1", "sandbox", "read").value(c)
	if err != nil {
		return err
	}
	if a.format() != "table" {
		return a.show(q)
	}
	var out struct {
		Dir   bool
		Data  []byte
		Stats json.RawMessage
	}
	if err := a.ask(q, &out); err != nil {
		return err
	}
	if out.Dir {
		return a.print(os.Stdout, out.Stats)
	}
	_, err = os.Stdout.Write(out.Data)
	return err
}

type writeCmd struct {
	ID   string  `json:"id" required:"" help:"The sandbox."`
	Path string  `json:"path" required:"" help:"The file."`
	Data *string `json:"-" help:"What it is to have; without it, standard input."`
}

// Run writes.
func (c *writeCmd) Run(a *app) error {
	data, err := dataOr(c.Data, input{a.ctx})
	if err != nil {
		return err
	}
	return a.send(post("v1", "sandbox", "write"), struct {
		*writeCmd
		Data []byte `json:"data"`
	}{c, data})
}

// dataOr is the text of a flag, or what there is to read.
func dataOr(flag *string, r io.Reader) ([]byte, error) {
	if flag != nil {
		return []byte(*flag), nil
	}
	return io.ReadAll(r)
}

// sendData sends a body that was given as a whole.
func (a *app) sendData(c call, data string) error {
	body := []byte(data)
	if data == "-" {
		var err error
		if body, err = io.ReadAll(input{a.ctx}); err != nil {
			return err
		}
	}
	if !json.Valid(body) {
		return usage("--data: that is no JSON")
	}
	return a.send(c, json.RawMessage(body))
}

type fsCmd struct {
	Get    fsGetCmd    `cmd:"" help:"Write a file to standard output, or list a directory."`
	Create fsCreateCmd `cmd:"" help:"Write a file, from --data, --file or standard input."`
	Mkdir  fsMkdirCmd  `cmd:"" help:"Make a directory."`
	Stat   fsStatCmd   `cmd:"" help:"Describe a file."`
	Rm     fsRmCmd     `cmd:"" help:"Remove a file or an empty directory."`
}

type fsGetCmd struct {
	ID     string `arg:"" help:"The sandbox."`
	Path   string `arg:"" optional:"" help:"The file or directory; by default the working directory."`
	Stat   string `enum:",stat,lstat,list,tree" default:"" help:"Describe instead: stat, lstat, list or tree."`
	Offset int64  `placeholder:"BYTES" help:"How much to leave out at the beginning."`
}

// Run reads.
func (c *fsGetCmd) Run(a *app) error {
	q := get("v1", "sandbox", c.ID, "fs")
	q.query = values("path", c.Path, "verbatim", "1", "stat", c.Stat)
	if c.Offset > 0 {
		q.query.Set("offset", strconv.FormatInt(c.Offset, 10))
	}
	if c.Stat != "" {
		return a.show(q)
	}
	return a.copy(q, os.Stdout)
}

type fsCreateCmd struct {
	ID   string   `arg:"" help:"The sandbox."`
	Path string   `arg:"" help:"The file."`
	Data *string  `xor:"from" help:"What it is to have."`
	File *os.File `xor:"from" placeholder:"NAME" help:"The file of this machine that it is to be like."`
	Mode string   `placeholder:"OCTAL" help:"Its permission bits."`
}

// Run writes.
func (c *fsCreateCmd) Run(a *app) error {
	q := post("v1", "sandbox", c.ID, "fs")
	q.query, q.kind = values("path", c.Path, "verbatim", "1", "mode", c.Mode), "application/octet-stream"
	switch {
	case c.Data != nil:
		q.body = strings.NewReader(*c.Data)
	case c.File != nil:
		defer c.File.Close()
		q.body = io.NopCloser(c.File)
	default:
		q.body = input{a.ctx}
	}
	return a.show(q)
}

type fsMkdirCmd struct {
	ID      string `arg:"" help:"The sandbox."`
	Path    string `arg:"" help:"The directory."`
	Parents bool   `short:"p" help:"Make missing parents too, and take one that exists."`
}

// Run makes a directory.
func (c *fsMkdirCmd) Run(a *app) error {
	q := post("v1", "sandbox", c.ID, "fs")
	q.query = values("path", c.Path, "verbatim", "1", "mkdir", "1")
	if c.Parents {
		q.query.Set("parents", "1")
	}
	return a.show(q)
}

type fsStatCmd struct {
	ID   string `arg:"" help:"The sandbox."`
	Path string `arg:"" optional:"" help:"The file."`
}

// Run describes.
func (c *fsStatCmd) Run(a *app) error {
	resp, err := a.do(call{
		method: http.MethodHead, path: []string{"v1", "sandbox", c.ID, "fs"},
		query: values("path", c.Path, "verbatim", "1"),
	})
	// The answer to a head has no sentence.
	if p, ok := errors.AsType[*problem.Error](err); ok && p.Status == http.StatusNotFound {
		return fmt.Errorf("%s: no such sandbox or file", c.Path)
	}
	if err != nil {
		return err
	}
	resp.Body.Close()
	return a.print(os.Stdout, []byte(resp.Header.Get("Sandbox-Stat")))
}

type fsRmCmd struct {
	ID        string `arg:"" help:"The sandbox."`
	Path      string `arg:"" help:"The file or directory."`
	Recursive bool   `short:"r" help:"Remove all that is below it too."`
}

// Run removes.
func (c *fsRmCmd) Run(a *app) error {
	q := call{method: http.MethodDelete, path: []string{"v1", "sandbox", c.ID, "fs"}}
	q.query = values("path", c.Path, "verbatim", "1")
	if c.Recursive {
		q.query.Set("tree", "1")
	}
	return a.show(q)
}
