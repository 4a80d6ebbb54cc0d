// Package client reaches sandboxes on a server, by openapi.yaml.
//
// Client and the types beside it are generated from that document: every
// operation, as it is on the wire. Remote stands on it and is written by hand:
// a sandbox.Driver, so that a *sandbox.Sandbox, a code interpreter and whatever
// else takes one work with a server as they do on the spot.
//
//	remote, err := client.New("http://127.0.0.1:8080", client.Config{Key: "sk-…"})
//	...
//	sb, err := remote.Lease(ctx, sandbox.Spec{})
//	...
//	out, err := sb.Command("python3", "-c", "print(6 * 7)").Output(ctx)
//
// Errors are those of package sandbox: errors.Is gives the same answers as it
// would where the sandbox is. What has no name there is a *ProblemError.
//
// # Other servers
//
// Of a server that has only the published operations, without what the
// document marks x-extension, commands and files work as far as those go, and
// what is beyond them is errors.ErrUnsupported: binary input and output,
// environment, users, limits, signals and terminals of commands; descriptions
// and removal of files; connections to ports.
package client
