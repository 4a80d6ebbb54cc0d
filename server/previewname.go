package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// defaultPreviews needs no name service: browsers take whatever ends in
// localhost for this machine.
const defaultPreviews = "http://*.localhost"

// previewNames are how previews are addressed: each by a host of its own below
// one domain, or, where there are no such hosts, each by a path of one host
// that serves nothing else.
type previewNames struct {
	scheme string
	host   string // lower case: the domain, or the host
	port   string // "" is that of the request that mints
	paths  bool
}

func parsePreviews(address string) (previewNames, error) {
	u, err := url.Parse(address)
	if err != nil {
		return previewNames{}, fmt.Errorf("server: Config.Previews: %w", err)
	}
	host, wild := strings.CutPrefix(u.Hostname(), "*.")
	n := previewNames{scheme: u.Scheme, host: strings.ToLower(host), port: u.Port(), paths: !wild}
	switch {
	case u.Scheme != "http" && u.Scheme != "https", host == "", strings.Contains(host, "*"), u.Path != "" && u.Path != "/", u.RawQuery != "", u.User != nil:
		return previewNames{}, errors.New("server: Config.Previews: want https://*.previews.example.com, or https://previews.example.com for paths")
	}
	return n, nil
}

// A previewed is a port of a sandbox.
type previewed struct {
	id   string
	port int
}

func (p previewed) label() string { return "sandbox-" + p.id + "-preview-" + strconv.Itoa(p.port) }

var previewLabel = regexp.MustCompile(`^sandbox-([a-z0-9]{21})-preview-([1-9][0-9]{0,4})$`)

func parseLabel(label string) (previewed, bool) {
	m := previewLabel.FindStringSubmatch(label)
	if m == nil {
		return previewed{}, false
	}
	port, err := strconv.ParseUint(m[2], 10, 16)
	return previewed{m[1], int(port)}, err == nil
}

// authority is the host, and the port if it is not the scheme's own, at which
// a preview is served. Where nothing else tells the port, it is that at which
// this server was asked.
func (n *previewNames) authority(askedAt string, p previewed) string {
	host, port := n.host, n.port
	if !n.paths {
		host = p.label() + "." + host
	}
	if port == "" && n.isDefault() {
		_, port, _ = net.SplitHostPort(askedAt)
	}
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}

func (n *previewNames) isDefault() bool { return n.scheme+"://*."+n.host == defaultPreviews }

// root is the path at which a preview begins.
func (n *previewNames) root(p previewed) string {
	if n.paths {
		return "/" + p.label() + "/"
	}
	return "/"
}

// ours reports whether a request is for a preview, or at least for where
// previews are, and for which.
func (n *previewNames) ours(r *http.Request) (p previewed, named, ours bool) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if n.paths {
		if host != n.host {
			return previewed{}, false, false
		}
		label, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		p, named = parseLabel(label)
		return p, named, true
	}
	label, ok := strings.CutSuffix(host, "."+n.host)
	if !ok {
		return previewed{}, false, false
	}
	p, named = parseLabel(label)
	return p, named, true
}
