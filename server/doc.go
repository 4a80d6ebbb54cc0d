// Package server is a Runtime over HTTP: the operations of openapi.yaml, with
// credentials, tenants, limits and money.
//
//	rt, err := sandbox.New(sandbox.Config{Root: "/var/lib/sandbox"})
//	...
//	handler, err := server.New(server.Config{Sandboxes: server.Runtime(rt), Keys: keys})
//
// New returns an http.Handler to serve by whatever server and under whatever
// TLS; the command server/cmd/sandboxd does that, with keys and a ledger in
// SQLite of package server/store.
//
// # Who is it
//
// A credential is one of our own keys, a token of an OpenID issuer, or, for the
// code interpreter alone, the service key. The organisation comes from the
// credential and from nowhere else. Admission is decided for the route that a
// request was matched with, never for the text of its path, and every route
// takes a credential unless it is one of the few that are listed as public. A
// sandbox of somebody else's does not exist: that is sandbox.Scope's to say.
//
// # Errors
//
// They are problems as of RFC 9457 with a code, from the table in
// internal/problem, by which package client turns them back into errors. What
// the table does not know is logged and answered by 500 without a word of it.
//
// # Streams
//
// Files and sockets are streamed: what a program or a file has is never held
// in memory as a whole. An answer that breaks in the middle breaks the
// connection, so that half of a file is not taken for one. Who takes nothing of
// an answer for Limits.StallTime is given up on, and what lasts ends with the
// key that it was asked for with.
package server
