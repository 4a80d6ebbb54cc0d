package main

import (
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
)

// snippetCmd is the code interpreter.
type snippetCmd struct {
	Create       snippetCreateCmd `cmd:"" help:"Run a snippet."`
	Files        snippetFilesCmd  `cmd:"" help:"The files of a session."`
	Upload       uploadCmd        `cmd:"" help:"Upload files to a session."`
	Download     downloadCmd      `cmd:"" help:"Download a file of a session."`
	Programmatic programmaticCmd  `cmd:"" help:"Programmatic tool calling, which this server's answer says that it has not."`
}

type snippetCreateCmd struct {
	Lang      string    `json:"lang" required:"" help:"The language: py, js, ts, bash, r, php, go, rs, c, cpp, java, d or f90."`
	Code      string    `json:"code" required:"" placeholder:"TEXT|-" help:"The whole program, or - for standard input."`
	Args      []string  `sep:"none" json:"args,omitempty" help:"An argument; may be repeated."`
	Files     []fileRef `sep:"none" json:"files,omitempty" placeholder:"JSON" help:"A file to put into the working directory, as the interpreter names it; may be repeated."`
	SessionID string    `json:"session_id,omitempty" help:"The session to run in."`
	UserID    string    `json:"user_id,omitempty" help:"A label."`
	EntityID  string    `json:"entity_id,omitempty" help:"A label."`
	Timeout   int64     `json:"timeout,omitempty" placeholder:"MILLISECONDS" help:"How long it may run."`

	RuntimeSessionHint string `json:"runtime_session_hint,omitempty" help:"Accepted, and of no effect."`
}

// Help is what --help adds.
func (c *snippetCreateCmd) Help() string {
	return `The exit code is the program's. With -o name the session is printed, to go on in.

Examples:
  hanzo exec create --lang py --code 'print(6 * 7)'
  hanzo exec create --lang r --code - < plot.R
  hanzo exec create --lang bash --code 'cat a.txt' --session-id ID`
}

// Run runs.
func (c *snippetCreateCmd) Run(a *app) error {
	if c.Code == "-" {
		b, err := io.ReadAll(input{a.ctx})
		if err != nil {
			return err
		}
		c.Code = string(b)
	}
	return a.showRun(post("v1", "exec"), c)
}

// A fileRef is a file of a session, in JSON.
type fileRef struct{ text json.RawMessage }

// UnmarshalText reads JSON.
func (f *fileRef) UnmarshalText(b []byte) error {
	if !json.Valid(b) || len(b) == 0 || b[0] != '{' {
		return errors.New(`want JSON, as {"id": "…", "name": "…", "session_id": "…"}`)
	}
	f.text = append(json.RawMessage(nil), b...)
	return nil
}

// MarshalJSON is what was given.
func (f fileRef) MarshalJSON() ([]byte, error) { return f.text, nil } //nolint:unparam // as json.Marshaler has it

type snippetFilesCmd struct {
	Get snippetFilesGetCmd `cmd:"" help:"List the files of a session."`
}

type snippetFilesGetCmd struct {
	SID string `arg:"" name:"sid" help:"The session."`
}

// Run lists.
func (c *snippetFilesGetCmd) Run(a *app) error { return a.show(get("v1", "exec", "files", c.SID)) }

type uploadCmd struct {
	Files     []string `arg:"" name:"file" type:"existingfile" help:"The files."`
	SessionID string   `help:"The session to put them into; by default a new one."`
}

// Run uploads. The files are read while they are sent.
func (c *uploadCmd) Run(a *app) error {
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() { w.CloseWithError(c.write(form)) }()
	defer r.Close()
	q := post("v1", "exec", "upload")
	q.kind, q.body = form.FormDataContentType(), r
	return a.show(q)
}

func (c *uploadCmd) write(form *multipart.Writer) error {
	if c.SessionID != "" {
		if err := form.WriteField("session_id", c.SessionID); err != nil {
			return err
		}
	}
	for _, name := range c.Files {
		if err := writePart(form, name); err != nil {
			return err
		}
	}
	return form.Close()
}

func writePart(form *multipart.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	part, err := form.CreateFormFile("file", filepath.Base(name))
	if err != nil {
		return err
	}
	_, err = io.Copy(part, f)
	return err
}

type downloadCmd struct {
	Session string `arg:"" help:"The session."`
	File    string `arg:"" help:"The file, by its id or its path."`
	To      string `short:"O" placeholder:"NAME" help:"Where to write it; by default, and for -, to standard output."`
}

// Run downloads.
func (c *downloadCmd) Run(a *app) error {
	q := get(append([]string{"v1", "exec", "download", c.Session}, strings.Split(c.File, "/")...)...)
	if c.To == "" || c.To == "-" {
		return a.copy(q, os.Stdout)
	}
	return writeFile(c.To, 0o666, func(w io.Writer) error { return a.copy(q, w) })
}

type programmaticCmd struct {
	Data string `default:"{}" placeholder:"JSON|-" help:"The request, or - for standard input."`
}

// Run asks.
func (c *programmaticCmd) Run(a *app) error {
	return a.sendData(post("v1", "exec", "programmatic"), c.Data)
}
