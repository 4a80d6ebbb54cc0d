package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"path"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxImages bounds how many images go along with a result, and
	// maxImageBytes how large each may be.
	maxImages     = 8
	maxImageBytes = 4 << 20
)

var imageNames = []string{".png", ".jpg", ".jpeg", ".gif", ".webp"}

// images are those that a run of the code interpreter made. One that cannot be
// had, or is none, or does not fit into the room in a message, is left out: the
// result names its file.
func (s *Server) images(ctx context.Context, req *sdk.CallToolRequest, ran []byte, room int) []sdk.Content {
	var out struct {
		SessionID string `json:"session_id"`
		Files     []struct{ ID, Name string }
	}
	if json.Unmarshal(ran, &out) != nil {
		return nil
	}
	var list []sdk.Content
	for _, f := range out.Files {
		if len(list) == maxImages {
			break
		}
		if !slices.Contains(imageNames, strings.ToLower(path.Ext(f.Name))) {
			continue
		}
		image := s.image(ctx, req, out.SessionID, f.ID)
		if image == nil || base64.StdEncoding.EncodedLen(len(image.Data)) > room {
			continue
		}
		room -= base64.StdEncoding.EncodedLen(len(image.Data)) + frameSize
		list = append(list, image)
	}
	return list
}

func (s *Server) image(ctx context.Context, req *sdk.CallToolRequest, session, file string) *sdk.ImageContent {
	r, err := s.operations["get_exec_download"].request(ctx, input{"session_id": quote(session), "fileId": quote(file)})
	if err != nil {
		return nil
	}
	a, err := s.do(r, s.header(req), maxImageBytes)
	if err != nil || !a.ok() || a.over || !imageKinds[kindOf(a.body.Bytes())] {
		return nil
	}
	return &sdk.ImageContent{MIMEType: kindOf(a.body.Bytes()), Data: a.body.Bytes()}
}

func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // of a string
	}
	return b
}
