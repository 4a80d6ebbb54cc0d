// Package mcp is the operations of openapi.yaml as tools for agents, by the
// Model Context Protocol.
//
//	tools, err := mcp.New(mcp.Config{API: handler})
//	...
//	http.Handle("/v1/mcp", tools)        // streamable HTTP
//	tools.Serve(ctx, os.Stdin, os.Stdout) // or a pipe
//
// Nothing is done twice: a call becomes a request to the handler of the
// operations, within this process and with the caller's own credential, so
// that limits, owners and money are as for anybody else. Names, descriptions
// and input schemas are read from the document.
//
// # Tools
//
// describe explains an operation; sandbox and exec each have many, of which a
// call names one; an operation's name is a tool as well, one that is not
// listed. Each has two names: the document's id, and one made of its method
// and address, as list_sandboxes. Unless Config.Bare, there are five more that
// need no explanation: run_code, run_command, read_file, write_file and
// list_files.
//
// # Results
//
// The answer is text and structured content. Images that a program made come
// along as images. What an operation refuses is a result that is an error,
// with the sentence; that a program fails is none. What a program says is told
// as progress while it runs, if the caller wants that. Of much output the five
// plain tools say the two ends, of which the structured content has all; a
// result that would be a larger message than clients read is an error.
//
// # Sessions
//
// Over HTTP most requests stand for themselves: when the caller goes away in
// the middle, what it asked for ends. Callers of older versions of the protocol
// begin a session, which is theirs alone; what it runs outlives a connection,
// and ends by a word or with the session. One that nobody uses for half an hour
// is over, and one that there is not, as after a restart, is answered by 404,
// upon which clients begin another.
package mcp
