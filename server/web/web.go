// Package web has the pages: a terminal, a screen, and a small console. They
// are plain HTML and modules, and ask no other site for anything.
//
// The modules of others, xterm.js and noVNC, are built in where they have been
// fetched before: go run ./server/web/fetch. Else their pages say so.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
)

//go:embed static modules
var files embed.FS

// needed is a module of each page that has any.
var needed = map[string]string{
	"terminal": "modules/xterm/xterm.mjs",
	"screen":   "modules/novnc/core/rfb.js",
}

// Has reports whether what the page is made with is built in.
func Has(page string) bool {
	if needed[page] == "" {
		return true
	}
	_, err := fs.Stat(files, needed[page])
	return err == nil
}

// policy lets a page have what comes from here. Both xterm.js and noVNC set
// styles of their own, and the latter's pointers are pictures.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; " +
	"connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "

// Page serves a page, which the frames' sites may frame.
func Page(name, frames string) http.HandlerFunc {
	file := "static/" + name + ".html"
	if !Has(name) {
		file = "static/missing.html"
	}
	b, err := files.ReadFile(file)
	if err != nil {
		panic(err) // it is built in
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy+frames)
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Write(b)
	}
}

// types are told by name, whatever this machine thinks that they are.
var types = map[string]string{
	".css": "text/css; charset=utf-8",
	".js":  "text/javascript; charset=utf-8",
	".mjs": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// File serves what the pages ask for: the file {path...}.
func File(w http.ResponseWriter, r *http.Request) bool {
	name := r.PathValue("path")
	kind := types[path.Ext(name)]
	if kind == "" {
		return false // pages and licences are not asked for
	}
	b, err := files.ReadFile(name)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(b)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-cache") // that is, to be asked about
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	w.Write(b)
	return true
}
