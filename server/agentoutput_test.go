package server_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand"
	"net/http"
	"strings"
	"testing"

	"github.com/matryer/is"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hanzoai/sandbox/internal/sandboxtest"
	"github.com/hanzoai/sandbox/server"
)

// printer prints what it is told to, by name.
func printer(texts map[string]string) map[string]sandboxtest.Program {
	programs := map[string]sandboxtest.Program{}
	for name, text := range texts {
		programs[name] = func(_ context.Context, p *sandboxtest.Proc) int {
			io.WriteString(p.Stdout, text)
			io.WriteString(p.Stderr, text)
			return 0
		}
	}
	return programs
}

// TestAgentOutput has a model read the two ends of much output, and a program
// have all of it.
func TestAgentOutput(t *testing.T) {
	lines, long := strings.Builder{}, "begin"+strings.Repeat("ü", 400_000)+"end"
	for i := range 100_000 {
		fmt.Fprintln(&lines, i)
	}
	m, keys := newMemory(t), keyring{}
	m.Programs = printer(map[string]string{
		"lines": lines.String(), "long": long, "binary": "\x00\xff\x1b[31m\r\n", "zeros": strings.Repeat("\x00", 1<<20), "short": "x\n",
	})
	s := start(t, server.Config{Sandboxes: m.For, Keys: keys})
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			a := newAgent(t, s.URL, keys.add("acme", "ada", false), version)
			_, leased := a.call(t, "lease_sandbox", nil)
			id := field(leased, "id").(string)
			run := func(tool, program string) (string, *mcp.CallToolResult) {
				t.Helper()
				return a.call(t, tool, arguments{"id": id, "argv": []string{program}})
			}
			t.Run("lines", func(t *testing.T) {
				is := is.New(t)
				text, r := run("run_command", "lines")
				is.True(strings.HasPrefix(text, "0\n1\n2\n"))
				is.True(strings.HasSuffix(text, "99998\n99999\n"))
				is.Equal(strings.Count(text, "bytes are left out here; have it written to a file"), 2)
				is.True(len(text) < 140_000)
				is.Equal(field(r, "stdout"), lines.String())
				is.Equal(field(r, "stderr"), lines.String())
			})
			t.Run("a long line", func(t *testing.T) {
				is := is.New(t)
				text, r := run("run_command", "long")
				is.True(strings.HasPrefix(text, "beginü"))
				is.True(strings.HasSuffix(text, "üend"))
				is.True(!strings.ContainsRune(text, '\uFFFD')) // no letter is cut
				is.Equal(field(r, "stdout"), long)
			})
			t.Run("binary", func(t *testing.T) {
				is := is.New(t)
				text, r := run("run_command", "binary")
				is.Equal(text, "\x00\uFFFD\x1b[31m\r\n[stderr]\n\x00\uFFFD\x1b[31m\r\n")
				is.Equal(field(r, "stdout"), "\x00\uFFFD\x1b[31m\r\n")
			})
			t.Run("what is long as JSON", func(t *testing.T) {
				is := is.New(t)
				text, r := run("exec_sandbox", "zeros") // the text would be an escape of escapes
				is.True(strings.Contains(text, "in the structured content alone"))
				is.True(strings.HasPrefix(field(r, "stderr").(string), strings.Repeat("\x00", 1<<20)))
				_, r = run("run_command", "zeros")
				is.True(strings.HasPrefix(field(r, "stdout").(string), strings.Repeat("\x00", 1<<20)))
				text, _ = run("run_command", "short") // the session goes on
				is.Equal(text, "x\n[stderr]\nx\n")
			})
		})
	}
}

// TestAgentLarge has no result be too large for a client to read, which then
// would not have a session any more.
func TestAgentLarge(t *testing.T) {
	is := is.New(t)
	s, key := agentServer(t, nil)
	a := newAgent(t, s.URL, key, "2025-06-18")
	_, leased := a.call(t, "lease_sandbox", nil)
	id := field(leased, "id").(string)
	put := func(name string, data []byte) {
		t.Helper()
		resp, err := poster{s.URL + "/v1/sandbox/" + id + "/fs?path=" + name + "#", key}.do(t.Context(), http.MethodPost, string(data), "Content-Type", "application/octet-stream")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	noise := make([]byte, 3<<20)
	rand.New(rand.NewSource(1)).Read(noise) //nolint:gosec // the same each time
	picture := image.NewGray(image.Rect(0, 0, 2048, 1536))
	copy(picture.Pix, noise)
	var encoded bytes.Buffer
	is.NoErr(png.Encode(&encoded, picture))
	for i := range 5 {
		put(fmt.Sprintf("plot_%d.png", i), encoded.Bytes())
	}
	_, r := a.call(t, "run_code", arguments{"lang": "bash", "code": "true", "session_id": id})
	images := 0
	for _, c := range r.Content {
		if _, ok := c.(*mcp.ImageContent); ok {
			images++
		}
	}
	is.Equal(images, 3) // of 4 MiB each in base64, and the result names all
	is.Equal(len(field(r, "files").([]any)), 5)

	put("large", bytes.Repeat([]byte{0, 1, 2, 3}, 3<<20))
	text, r := a.call(t, "get_download", arguments{"session_id": id, "fileId": "large"})
	is.True(r.IsError)
	is.True(strings.Contains(text, "ask for less of it at a time"))
	text, r = a.call(t, "read_file", arguments{"id": id, "path": "large"})
	is.True(r.IsError)
	is.True(strings.Contains(text, "look at it with a command"))
	put("middling", bytes.Repeat([]byte{0, 1, 2, 3}, 2<<20))
	text, r = a.call(t, "read_sandbox_file", arguments{"id": id, "path": "middling"})
	is.True(strings.Contains(text, "in the structured content alone"))
	is.Equal(len(field(r, "data").(string)), (8<<20+2)/3*4)
	put("text", []byte(strings.Repeat("ü\n", 100_000)))
	text, _ = a.call(t, "read_file", arguments{"id": id, "path": "text"})
	is.True(strings.HasSuffix(text, "[the file goes on; read it with offset 65535]"))
	text, _ = a.call(t, "read_file", arguments{"id": id, "path": "text", "offset": 299_994})
	is.Equal(text, "ü\nü\n")
}

// TestAgentFileNames has files have any names that there can be.
func TestAgentFileNames(t *testing.T) {
	is := is.New(t)
	s, key := agentServer(t, nil)
	a := newAgent(t, s.URL, key, "")
	_, leased := a.call(t, "lease_sandbox", nil)
	id := field(leased, "id").(string)
	for _, name := range []string{"a%2Fb", "..data", "a..b", " a b ", "ü n/ö ..", "日本.txt", "x\ny (5 bytes)", "-rf", "a+b&c=d?e#f", "%00", "...", "dot."} {
		_, wrote := a.call(t, "write_file", arguments{"id": id, "path": "d/" + name, "content": "of " + name})
		is.Equal(field(wrote, "path"), "/mnt/data/d/"+name)
		text, _ := a.call(t, "read_file", arguments{"id": id, "path": "d/" + name})
		is.Equal(text, "of "+name)
	}
	text, _ := a.call(t, "list_files", arguments{"id": id, "path": "d"})
	for _, line := range []string{"a%2Fb (8 bytes)\n", "..data (9 bytes)\n", "\" a b \" (8 bytes)\n", "ü n/\n", `"x\ny (5 bytes)" (16 bytes)` + "\n"} {
		is.True(strings.Contains(text, line))
	}
	is.Equal(strings.Count(text, "\n"), 12)
	for _, wrong := range []any{"../x", "/etc/passwd", "a\x00b"} {
		_, r := a.call(t, "write_file", arguments{"id": id, "path": wrong, "content": ""})
		is.True(r.IsError)
	}
}

// TestAgentTypes has wrong types be told, and what is null not be there.
func TestAgentTypes(t *testing.T) {
	is := is.New(t)
	s, key := agentServer(t, nil)
	a := newAgent(t, s.URL, key, "")
	_, leased := a.call(t, "lease_sandbox", arguments{"id": nil, "class": nil})
	id := field(leased, "id").(string)
	a.call(t, "write_file", arguments{"id": id, "path": "f", "content": "kept"})
	for _, c := range []struct {
		tool string
		args arguments
		want string
	}{
		{"read_file", arguments{"id": id, "path": true}, "path: want a string"},
		{"read_file", arguments{"id": id, "path": nil}, "path is needed"},
		{"read_file", arguments{"id": 7, "path": "f"}, "id: want a string"},
		{"read_file", arguments{"id": id, "path": "f", "offset": "x"}, "offset"},
		{"read_file", arguments{"id": id, "path": "f", "offset": -1}, "offset"},
		{"write_file", arguments{"id": id, "path": "f", "content": nil}, "content is needed"},
		{"write_file", arguments{"id": id, "path": "f", "content": 5}, "content: want a string"},
		{"run_code", arguments{"lang": "bash", "code": "true", "session_id": []int{1}}, "session_id: want a string"},
		{"run_command", arguments{"id": id, "argv": "ls"}, "invalid body"},
		{"run_command", arguments{"id": id, "command": nil}, "argv or command is needed"},
		{"sandbox", arguments{"op": "get_sandbox_by_id", "input": nil}, "id is needed"},
	} {
		text, r := a.call(t, c.tool, c.args)
		if !r.IsError || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: got %v %.200q, want an error with %q", c.tool, c.args, r.IsError, text, c.want)
		}
	}
	text, _ := a.call(t, "read_file", arguments{"id": id, "path": "f", "nosuch": 1}) // as the API has it
	is.Equal(text, "kept")
}

// TestAgentTimeout has a model see what a command printed whose time was over.
func TestAgentTimeout(t *testing.T) {
	is := is.New(t)
	m, keys := newMemory(t), keyring{}
	m.Programs = map[string]sandboxtest.Program{"slow": func(ctx context.Context, p *sandboxtest.Proc) int {
		for i := range 20_000 {
			fmt.Fprintln(p.Stdout, "line", i)
		}
		<-ctx.Done()
		return 1
	}}
	s := start(t, server.Config{Sandboxes: m.For, Keys: keys})
	a := newAgent(t, s.URL, keys.add("acme", "ada", false), "")
	text, r := a.call(t, "run_command", arguments{"argv": []string{"slow"}, "timeoutSec": 1})
	is.True(r.IsError)
	is.True(strings.Contains(text, "deadline"))
	said := r.Content[1].(*mcp.TextContent).Text
	is.True(strings.HasPrefix(said, "[what it had printed]\nline 0\nline 1\n"))
	is.True(strings.HasSuffix(said, "line 19999\n"))
	is.True(strings.Contains(said, "bytes are left out here"))
	is.True(strings.HasPrefix(r.Content[2].(*mcp.TextContent).Text, "[sandbox ")) // to go on there
}
