package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxFile is how large an image, or another file that is no text, may be.
const maxFile = 4 << 20

// A file is what a tool for files is about.
type file struct {
	id, note string // of its sandbox
	query    url.Values
}

// file is what the tools for files are called with.
func (s *Server) file(ctx context.Context, req *sdk.CallToolRequest, in input) (f file, err error) {
	f.query = url.Values{"verbatim": {"1"}} // a name is one, whatever is in it
	path, err := stringIn(in, "path")
	if err != nil {
		return file{}, err
	}
	f.query.Set("path", path)
	offset, err := text("offset", in["offset"])
	if err != nil {
		return file{}, err
	}
	if offset != "" {
		f.query.Set("offset", offset)
	}
	f.id, f.note, err = s.place(ctx, req, in)
	return f, err
}

// do has the API see to a file; the answer is a success, of up to limit bytes.
func (f *file) do(ctx context.Context, s *Server, req *sdk.CallToolRequest, method, body string, limit int) (*answer, error) {
	escaped, err := escape("id", f.id)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse("http://" + host + "/v1/sandbox/" + escaped + "/fs?" + f.query.Encode())
	if err != nil {
		return nil, err
	}
	r, err := newRequest(ctx, method, u, "application/octet-stream", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	a, err := s.do(r, s.header(req), limit)
	if err == nil {
		err = refusal(a)
	}
	return a, err
}

func (s *Server) readFile(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	f, err := s.file(ctx, req, in)
	if err != nil {
		return nil, err
	}
	a, err := f.do(ctx, s, req, http.MethodGet, "", maxFile)
	if err != nil {
		return nil, err
	}
	data := a.body.Bytes()
	if head := wholeRunes(data[:min(len(data), maxText)]); isText(head) && (a.over || len(head) < len(data)) {
		offset, _ := strconv.Atoi(f.query.Get("offset")) //nolint:errcheck // the server has read it
		note := fmt.Sprintf("\n[the file goes on; read it with offset %d]", offset+len(head))
		return &sdk.CallToolResult{Content: words(string(head) + note)}, nil
	}
	if a.over {
		return nil, inputError(fmt.Sprintf("the file has more than %d bytes and is no text; look at it with a command", maxFile))
	}
	return s.shown("sandbox://"+f.id+"/"+strings.TrimPrefix(f.query.Get("path"), "/"), data), nil
}

func (s *Server) listFiles(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	dir, err := s.file(ctx, req, in)
	if err != nil {
		return nil, err
	}
	dir.query.Set("stat", "list")
	a, err := dir.do(ctx, s, req, http.MethodGet, "", maxAnswer)
	if err != nil {
		return nil, err
	}
	var list struct {
		Stats []struct {
			Name, Type, Target string
			Size               int64
		}
	}
	if err := json.Unmarshal(a.body.Bytes(), &list); err != nil || a.over {
		return nil, inputError("the directory has too many files to list; look at it with a command")
	}
	var b strings.Builder
	for _, f := range list.Stats {
		switch name := inLine(f.Name); f.Type {
		case "directory":
			fmt.Fprintf(&b, "%s/\n", name)
		case "link":
			fmt.Fprintf(&b, "%s -> %s\n", name, inLine(f.Target))
		default:
			fmt.Fprintf(&b, "%s (%d bytes)\n", name, f.Size)
		}
	}
	if len(list.Stats) == 0 {
		b.WriteString("[no files]\n")
	}
	return &sdk.CallToolResult{Content: words(ends(b.String(), "") + dir.note), StructuredContent: json.RawMessage(a.body.Bytes())}, nil
}

func (s *Server) writeFile(ctx context.Context, req *sdk.CallToolRequest, in input) (*sdk.CallToolResult, error) {
	text, err := stringIn(in, "content")
	if err != nil {
		return nil, err
	}
	f, err := s.file(ctx, req, in)
	if err != nil {
		return nil, err
	}
	a, err := f.do(ctx, s, req, http.MethodPost, text, maxAnswer)
	if err != nil {
		return nil, err
	}
	var wrote struct {
		Path  string
		Bytes int64
	}
	if err := json.Unmarshal(a.body.Bytes(), &wrote); err != nil {
		return nil, errBroken
	}
	said := strings.TrimSpace(fmt.Sprintf("wrote %d bytes to %s\n%s", wrote.Bytes, wrote.Path, f.note))
	return &sdk.CallToolResult{Content: words(said), StructuredContent: json.RawMessage(a.body.Bytes())}, nil
}
