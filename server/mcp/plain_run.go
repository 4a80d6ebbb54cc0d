package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxText is how much of a text is shown at a time, in bytes: more than
	// some 20,000 words are more than a model can be told at once.
	maxText = 64 << 10
	// maxNames bounds how many files are named.
	maxNames = 100
)

// ran is what an operation that runs something answers.
type ran struct {
	Session        string `json:"session_id"`
	Stdout, Stderr string
	ExitCode, Code int
	Cause          string
	Files          []struct{ Name string }
}

// say tells how a program ended, as a person reads it. The structured content
// has all that was printed, of which this has the two ends.
func (r *ran) say(note string) []sdk.Content {
	var b strings.Builder
	b.WriteString(ends(r.Stdout, inFile))
	part := func(text string) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteString("\n")
		}
		b.WriteString(text)
	}
	if r.Stderr != "" {
		part("[stderr]\n" + ends(r.Stderr, inFile))
	}
	if code := r.ExitCode + r.Code; code != 0 { // one of which is there
		part("[exit code " + strconv.Itoa(code) + "]")
	}
	if r.Cause != "" && r.Cause != "exit" {
		part("[ended by " + r.Cause + "]")
	}
	if len(r.Files) > 0 {
		part("[files: " + r.names() + "]")
	}
	if note != "" {
		part(note)
	}
	if b.Len() == 0 {
		b.WriteString("[it printed nothing]")
	}
	return words(b.String())
}

// names are those of the files that it made, as many as somebody reads.
func (r *ran) names() string {
	names := make([]string, 0, len(r.Files))
	for i, f := range r.Files {
		if i == maxNames {
			names = append(names, fmt.Sprintf("and %d more", len(r.Files)-i))
			break
		}
		names = append(names, inLine(f.Name))
	}
	return strings.Join(names, ", ")
}

// inLine is a file's name as a part of a line: one that would end the line, or
// look like another one's, is quoted.
func inLine(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) || strings.TrimSpace(name) != name {
		return strconv.Quote(name)
	}
	return name
}

// inFile is what to do about output of which the middle is left out.
const inFile = "; have it written to a file to read all of it"

// ends is a text without its middle, if it is more than a model can read.
func ends(text, advice string) string {
	if len(text) <= maxText {
		return text
	}
	head := string(wholeRunes([]byte(text[:maxText/2])))
	tail := text[len(text)-maxText/2:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	left := len(text) - len(head) - len(tail)
	return fmt.Sprintf("%s\n[%d bytes are left out here%s]\n%s", head, left, advice, tail)
}

// finish is the result of a run, with the images of it that there are.
func (s *Server) finish(a *answer, id, note string) (*sdk.CallToolResult, *ran, error) {
	if err := refusal(a); err != nil {
		return nil, nil, err
	}
	var out ran
	fields := input{}
	if a.over || json.Unmarshal(a.body.Bytes(), &out) != nil || json.Unmarshal(a.body.Bytes(), &fields) != nil {
		return nil, nil, errBroken
	}
	if id != "" {
		fields["id"] = quote(id)
	}
	return &sdk.CallToolResult{Content: out.say(note), StructuredContent: fields}, &out, nil
}

func (s *Server) runCommand(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	id, note, err := s.place(ctx, req, in)
	if err != nil {
		return nil, err
	}
	in["id"] = quote(id)
	ctx, said := recorded(ctx)
	a, err := s.call(ctx, req, s.operations["run_in_sandbox"], in)
	if err == nil {
		err = refusal(a)
	}
	if err != nil { // as of one whose time is over
		r := s.failed(err)
		if text := said.String(); text != "" {
			r.Content = append(r.Content, words("[what it had printed]\n"+strings.ToValidUTF8(text, "\uFFFD"))...)
		}
		if note != "" {
			r.Content = append(r.Content, words(note)...)
		}
		return r, nil
	}
	r, _, err := s.finish(a, id, note)
	return r, err
}

func (s *Server) runCode(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	named, err := stringIn(in, "session_id")
	if err != nil {
		return nil, err
	}
	id, note := named, ""
	if named == "" && !standsAlone(ctx) {
		if id, note, err = s.place(ctx, req, input{}); err != nil {
			return nil, err
		}
	}
	in["session_id"] = quote(id)
	a, err := s.call(ctx, req, s.operations["post_exec"], in)
	if err != nil {
		return nil, err
	}
	r, out, err := s.finish(a, "", note)
	if err != nil {
		return nil, err
	}
	switch {
	case id == "":
		r.Content = out.say("[sandbox " + out.Session + ": give it as session_id to go on there]")
	case id != out.Session:
		r.Content = out.say("[sandbox " + out.Session + ": " + lost)
	}
	r.Content = append(r.Content, s.images(ctx, req, a.body.Bytes(), maxResult-size(r))...)
	return r, nil
}
