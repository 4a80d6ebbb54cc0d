package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// previewLife is how long a preview stays open.
const previewLife = 12 * time.Hour

// A pass is what a preview's cookie says: which port, of which run of a
// sandbox, for whom and until when.
type pass struct {
	ID    string `json:"id"`
	Port  int    `json:"port"`
	Run   int64  `json:"run"`
	Until int64  `json:"until"`
	Org   string `json:"org"`
	User  string `json:"user,omitempty"`
	Admin bool   `json:"admin,omitempty"`
	Name  string `json:"name"`
}

func (p *pass) principal() principal {
	return principal{Org: p.Org, User: p.User, Admin: p.Admin, Name: p.Name}
}

// A seal makes passes that cannot be made elsewhere. Its key is of this
// process alone, and so are they: nothing is kept of them.
type seal [sha256.Size]byte

func newSeal() *seal { return (*seal)(randomBytes(sha256.Size)) }

func (s *seal) sum(text string) []byte {
	mac := hmac.New(sha256.New, s[:])
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (s *seal) close(p *pass) string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // of strings and numbers
	}
	text := base64.RawURLEncoding.EncodeToString(b)
	return text + "." + base64.RawURLEncoding.EncodeToString(s.sum(text))
}

// open returns the pass of a cookie, if it is one and its time is not over.
func (s *seal) open(cookie string) (*pass, bool) {
	text, mac, _ := strings.Cut(cookie, ".")
	sum, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || !hmac.Equal(sum, s.sum(text)) {
		return nil, false
	}
	p := &pass{}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, p) != nil {
		return nil, false
	}
	return p, time.Now().Unix() < p.Until
}

// cookieName is the cookie's. With its prefix a browser takes it from nobody
// but this very host, by TLS; without TLS that cannot be had.
func (n *previewNames) cookieName(p previewed) string {
	switch {
	case n.paths && n.scheme == "https":
		return "__Secure-" + p.label()
	case n.scheme == "https":
		return "__Host-sandbox-preview"
	}
	return "sandbox-preview-" + p.label()
}

// isCookie reports whether a cookie's name is one of ours, of whichever
// preview.
func isCookie(name string) bool {
	_, label := parseLabel(strings.TrimPrefix(strings.TrimPrefix(name, "sandbox-preview-"), "__Secure-"))
	return name == "__Host-sandbox-preview" || label
}

// cookie is a preview's cookie. By TLS it is also good in a page of another
// site that shows the preview in a frame, and for that page alone.
func (n *previewNames) cookie(p previewed, value string) *http.Cookie {
	c := &http.Cookie{
		Name: n.cookieName(p), Value: value, Path: "/", MaxAge: int(previewLife / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if n.paths {
		c.Path = n.root(p)
	}
	if n.scheme == "https" {
		c.Secure, c.SameSite, c.Partitioned = true, http.SameSiteNoneMode, true
	}
	return c
}

// passOf returns the pass that a request shows for a preview.
func (s *server) passOf(r *http.Request, p previewed) (*pass, bool) {
	for _, c := range r.CookiesNamed(s.previews.cookieName(p)) {
		if pass, ok := s.seal.open(c.Value); ok && pass.ID == p.id && pass.Port == p.port {
			return pass, true
		}
	}
	return nil, false
}

// keepCookies takes our cookies out of a request's headers, and leaves the
// others as they are written.
func keepCookies(h http.Header) {
	lines := h["Cookie"]
	delete(h, "Cookie")
	for _, line := range lines {
		var kept []string
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if !isCookie(strings.TrimSpace(name)) {
				kept = append(kept, strings.TrimSpace(pair))
			}
		}
		if line = strings.Join(kept, "; "); line != "" {
			h.Add("Cookie", line)
		}
	}
}

// narrowCookies has an answer set cookies for its own host alone, and none of
// ours.
func narrowCookies(h http.Header, root string) {
	lines := h["Set-Cookie"]
	delete(h, "Set-Cookie")
	for _, line := range lines {
		parts := strings.Split(line, ";")
		name, _, _ := strings.Cut(parts[0], "=")
		if isCookie(strings.TrimSpace(name)) {
			continue
		}
		kept := parts[:1]
		for _, part := range parts[1:] {
			key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			switch key = strings.TrimSpace(key); {
			case strings.EqualFold(key, "Domain"):
				continue
			case root != "/" && strings.EqualFold(key, "Path"):
				part = " Path=" + root + strings.TrimPrefix(strings.TrimSpace(value), "/")
			}
			kept = append(kept, part)
		}
		h.Add("Set-Cookie", strings.Join(kept, ";"))
	}
}
